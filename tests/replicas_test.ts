import { assert, assertEquals } from "@std/assert";
import { commandArgs, type RunningCommand, startCommand, startServe } from "./_command.ts";
import { type Message, readSse } from "./_sse.ts";
import { TempDirectory } from "./_temp.ts";

/** How soon a change has to be everywhere. */
const SOON_MS = 2_000;

async function directoryWith(env: string) {
  const directory = await TempDirectory.make({ "app.env": env });
  const args = ["--hot-reload", "--env-file", directory.at("app.env"), "--kv", directory.at("kv.sqlite3")];
  return { directory, args };
}

async function openStream({ url }: RunningCommand, cursor?: number) {
  const headers = cursor === undefined ? {} : { "last-event-id": String(cursor) };
  const reader = readSse(await fetch(`${url}/rep/changes`, { headers }));
  await reader.pull();
  return reader;
}

async function keyOf({ url }: RunningCommand, query = ""): Promise<[number, string | undefined]> {
  const response = await fetch(`${url}/rep/session-key${query}`);
  return [response.status, (await response.json()).key];
}

function isOne(messages: readonly Message[][]): boolean {
  return messages.every((list) => JSON.stringify(list) === JSON.stringify(messages[0]));
}

Deno.test("two processes on one file tell every client of a change once, with one id, and soon", async () => {
  const { directory, args } = await directoryWith("REP_PUBLIC_A=0\n");
  await using _directory = directory;
  await using first = await startCommand(args);
  await using second = await startCommand(args);
  const streams = [await openStream(first), await openStream(second)];
  for (let change = 1; change <= 5; change++) {
    await directory.write("app.env", `REP_PUBLIC_A=${change}\n`);
    const start = performance.now();
    first.signal("SIGHUP"); // only one of them is told
    const told = await Promise.all(streams.map((stream) => stream.take(1)));
    const ms = performance.now() - start;
    assert(ms < SOON_MS, `change ${change} took ${ms} ms`);
    assert(isOne(told), JSON.stringify(told));
    second.signal("SIGHUP");
    await second.logged(() => second.output.filter((line) => line.includes("rep.config.reloaded")).length >= change);
  }
  for (const stream of streams) await stream.close();
  const all = await openStream(second, 0);
  assertEquals((await all.take(6)).map(({ data }) => data.value), ["0", "1", "2", "3", "4", "5"]); // and none twice
  await all.close();
});

Deno.test("two processes on one file have one rate limit and one set of keys", async () => {
  const { directory, args } = await directoryWith("REP_SENSITIVE_S=x\n");
  await using _directory = directory;
  await using first = await startCommand(args);
  await using second = await startCommand(args);
  const earlier = await keyOf(first, "");
  const { key_id: kid } = await first.logged(({ msg }) => msg === "rep.session_key.issued");
  const others = await Promise.all(Array.from({ length: 14 }, (_, i) => keyOf(i % 2 ? first : second, `?kid=${kid}`)));
  const asked = [earlier, ...others];
  assertEquals(asked.filter(([status]) => status === 200).length, 10);
  assertEquals(new Set(asked.map(([, key]) => key).filter((key) => key !== undefined)).size, 1);
});

Deno.test("a client goes on at the other process when its own is killed", async () => {
  const { directory, args } = await directoryWith("REP_PUBLIC_A=0\n");
  await using _directory = directory;
  await using first = await startCommand(args);
  await using second = await startCommand(args);
  const stream = await openStream(first);
  await directory.write("app.env", "REP_PUBLIC_A=1\n");
  second.signal("SIGHUP");
  const [last] = await stream.take(1);
  first.signal("SIGKILL");
  await first.ended();
  await stream.close().catch(() => {}); // it broke off with the process
  await directory.write("app.env", "REP_PUBLIC_A=2\n");
  second.signal("SIGHUP");
  const next = await openStream(second, last?.id);
  assertEquals((await next.take(1)).map(({ data }) => data.value), ["2"]);
  await next.close();
});

Deno.test("the threads of deno serve --parallel have one sequence, one rate limit and one set of keys", async () => {
  const directory = await TempDirectory.make();
  await using _directory = directory;
  const env = {
    REP_PUBLIC_A: "0",
    REP_SENSITIVE_S: "x",
    REP_GATEWAY_HOT_RELOAD: "true",
    REP_GATEWAY_KV: directory.at("kv.sqlite3"),
    REP_GATEWAY_DRAIN: "200ms",
  };
  await using served = await startServe(["--parallel"], { ...env, DENO_JOBS: "3" });
  const asked = await Promise.all(Array.from({ length: 30 }, () => keyOf(served)));
  assertEquals(asked.filter(([status]) => status === 200).length, 10);
  assertEquals(new Set(asked.map(([, key]) => key).filter((key) => key !== undefined)).size, 1);
  const streams = await Promise.all(Array.from({ length: 12 }, () => openStream(served))); // they land on all threads
  await setVariable(directory.at("kv.sqlite3"), "A=1");
  const told = await Promise.all(streams.map((stream) => stream.take(1)));
  assert(isOne(told), JSON.stringify(told));
  served.signal("SIGTERM");
  assertEquals(await Promise.all(streams.map((stream) => stream.next())), streams.map(() => undefined));
  assertEquals(await served.ended(), 0);
});

/** By the command, from a process of its own. */
async function setVariable(kv: string, assignment: string): Promise<void> {
  const words = commandArgs(["set", assignment, "--kv", kv]);
  const { code, stderr } = await new Deno.Command(Deno.execPath(), { args: words, stdin: "null" }).output();
  assertEquals(code, 0, new TextDecoder().decode(stderr));
}
