import { assertEquals } from "@std/assert";
import { findProgram } from "../tools/find_program.ts";
import { runCommand, type RunningCommand, startCommand } from "./_command.ts";
import type { Message } from "./_sse.ts";
import { openStream } from "./_stream_client.ts";
import { modesIn } from "./core/store/_modes.ts";
import { TempDirectory } from "./_temp.ts";

// What docs/deploy.md says about backups, upgrades and rollbacks of processes on one file.

const SQLITE = await findProgram("sqlite3");

async function setTheme(value: string, kv: string) {
  const { code, stderr } = await runCommand([
    "set",
    `THEME=${value}`,
    "--kv",
    kv,
  ]);
  assertEquals([code, stderr], [0, "Taken by 1 gateway\n"]);
}

/** Returns what a client gets that has seen everything up to an id. */
async function takeAfter(
  command: RunningCommand,
  cursor: number,
  count: number,
): Promise<Message[]> {
  const stream = await openStream(command, cursor);
  const messages = await stream.take(count);
  await stream.close();
  return messages;
}

function changesOf(messages: readonly Message[]): string[] {
  return messages.map(({ data: { key, value } }) => `${key}=${value}`);
}

/** Requests the key that opens the SENSITIVE values of a page. */
async function keyFor({ url }: RunningCommand, kid: string) {
  return (await (await fetch(`${url}/rep/session-key?kid=${kid}`)).json()).key;
}

Deno.test({
  name: SQLITE === undefined
    ? "a backup of the file restores variables, events and the master key (sqlite3 is not installed)"
    : "a backup of the file, made while the gateway runs, restores variables, events and the master key",
  ignore: SQLITE === undefined,
  async fn() {
    await using directory = await TempDirectory.make();
    const kv = directory.at("kv.sqlite3");
    const flags = ["--hot-reload", "--kv", kv];
    const env = { REP_PUBLIC_A: "1", REP_SENSITIVE_S: "secret" };
    let kid = "", key = "", seen = 0;
    {
      await using command = await startCommand(flags, env);
      kid = String((await issueKey(command)).key_id);
      key = await keyFor(command, kid);
      await setTheme("old", kv);
      const [, theme] = await takeAfter(command, 0, 2);
      await runDocumented("umask 077", directory);
      await setTheme("new", kv);
      const [after] = await takeAfter(command, theme?.id ?? 0, 1);
      seen = after?.id ?? 0;
      command.signal("SIGTERM");
      await command.ended();
    }
    await runDocumented("rm -f /data", directory);
    assertEquals(await modesIn(directory.path), {
      "backup.sqlite3": "600",
      "kv.sqlite3": "600",
    });

    await using command = await startCommand(flags, env);
    assertEquals(
      await keyFor(command, kid),
      key,
      "pages that were loaded before can decrypt",
    );
    const restored = await takeAfter(command, seen, 2);
    assertEquals(
      changesOf(restored).sort(),
      ["A=1", "THEME=old"],
      "a client that has seen more gets the whole state",
    );
    await setTheme("newest", kv);
    const [next] = await takeAfter(command, restored.at(-1)?.id ?? 0, 1);
    assertEquals([changesOf([next!]), next!.id > seen], [
      ["THEME=newest"],
      true,
    ]);
  },
});

async function issueKey(command: RunningCommand) {
  await (await fetch(`${command.url}/rep/session-key`)).body?.cancel();
  return await command.logged(({ msg }) => msg === "rep.session_key.issued");
}

/** Runs the documented commands in a directory, without a change of the owner. */
async function runDocumented(start: string, { path }: TempDirectory) {
  const page = await Deno.readTextFile("docs/deploy.md");
  const blocks = [...page.matchAll(/^```sh\n(.*?)^```$/gms)];
  const [, found] = blocks.find(([, text = ""]) => text.startsWith(start)) ??
    [];
  const script = `set -e\n${found}`
    .replace(/ -o \d+ -g \d+/, "")
    .replaceAll("/data/", "")
    .replaceAll("/backup/kv", "backup");
  const { code, stderr } = await new Deno.Command("sh", {
    args: ["-c", `umask 022; ${script}`],
    cwd: path,
  }).output();
  assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
}

/** Ends a process as an orchestrator does, and starts its successor, which listens on the same port. */
async function replace(
  old: RunningCommand,
  args: readonly string[],
  env: Record<string, string>,
) {
  old.signal("SIGTERM");
  assertEquals(await old.ended(), 0);
  return await startCommand([...args, "--port", new URL(old.url).port], env);
}

Deno.test("a rolling upgrade of two processes on one file and its rollback reach a client once and in order", async () => {
  await using directory = await TempDirectory.make();
  const args = [
    "--hot-reload",
    "--drain",
    "1s",
    "--kv",
    directory.at("kv.sqlite3"),
  ];
  const [before, after] = [{ REP_PUBLIC_A: "before" }, {
    REP_PUBLIC_A: "after",
    REP_PUBLIC_B: "added",
  }];
  const seen: Message[] = [];
  const read = async (command: RunningCommand, count: number) => {
    seen.push(...await takeAfter(command, seen.at(-1)?.id ?? 0, count));
  };

  await using first = await startCommand(args, before);
  await using second = await startCommand(args, before);
  await read(first, 1);
  await using upgradedFirst = await replace(first, args, after);
  await read(second, 2); // the client is at the other, old process
  await using upgradedSecond = await replace(second, args, after);
  await read(upgradedSecond, 0);

  await using rolledBackFirst = await replace(upgradedFirst, args, before);
  await using _rolledBackSecond = await replace(upgradedSecond, args, before);
  await read(rolledBackFirst, 2);
  assertEquals(
    changesOf(seen).map((change) => change.replace("=undefined", " deleted")),
    [
      "A=before",
      "A=after",
      "B=added",
      "A=before",
      "B deleted",
    ],
  );
  assertEquals(
    seen.map(({ id }) => id).toSorted((a, b) => a - b),
    seen.map(({ id }) => id),
  );
});
