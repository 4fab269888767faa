import { assert, assertEquals } from "@std/assert";
import { type RunningCommand, startCommand } from "./_command.ts";
import type { Message } from "./_sse.ts";
import { openStream } from "./_stream_client.ts";
import { TempDirectory } from "./_temp.ts";

async function makeApp(text: string) {
  const directory = await TempDirectory.make({ "app.env": text });
  const env = ["--env-file", directory.at("app.env")];
  const kv = ["--kv", directory.at("kv.sqlite3")];
  return {
    directory,
    async write(text: string) {
      await directory.write("new", text);
      await Deno.rename(directory.at("new"), directory.at("app.env"));
    },
    start: (...flags: string[]) =>
      startCommand(["--hot-reload", ...env, ...kv, ...flags]),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

/** Ends the process without giving it time for anything. */
async function kill(command: RunningCommand) {
  command.signal("SIGKILL");
  await command.ended();
}

function valuesOf(messages: readonly Message[]): unknown[] {
  return messages.map(({ data }) => data.value ?? `no ${data.key}`);
}

function areRising(messages: readonly Message[]) {
  return messages.every(({ id }, index) =>
    index === 0 || id > (messages[index - 1]?.id ?? 0)
  );
}

Deno.test("a gateway that was killed goes on where it was: replay is complete, and comes before anything new", async () => {
  const textOf = (value: string) =>
    `REP_PUBLIC_A=${value}\nREP_PUBLIC_B=stays\n`;
  await using app = await makeApp(textOf("1"));
  const reload = async (command: RunningCommand, value: string) => {
    await app.write(textOf(value));
    command.signal("SIGHUP");
  };

  const seen: Message[] = [];
  {
    await using command = await app.start();
    const stream = await openStream(command);
    for (const value of ["2", "3"]) {
      await reload(command, value);
      seen.push(...await stream.take(1));
    }
    await stream.close();
    for (const value of ["4", "5"]) {
      await reload(command, value);
      const all = await openStream(command, seen.at(-1)?.id);
      await all.take(Number(value) - 3); // it has been published, though the client does not know of it
      await all.close();
    }
    await kill(command);
  }

  await app.write(textOf("6")); // while nobody runs
  await using command = await app.start();
  const stream = await openStream(command, seen.at(-1)?.id);
  seen.push(...await stream.take(3));
  assertEquals(valuesOf(seen), ["2", "3", "4", "5", "6"]);
  await reload(command, "7");
  seen.push(...await stream.take(1));
  assertEquals(valuesOf(seen), ["2", "3", "4", "5", "6", "7"]);
  assert(areRising(seen), `ids are ${seen.map(({ id }) => id)}`);
  await stream.close();
});

Deno.test("a variable that was removed while the gateway was down is deleted for those who come back", async () => {
  await using app = await makeApp("REP_PUBLIC_A=1\nREP_PUBLIC_B=1\n");
  {
    await using command = await app.start();
    await kill(command);
  }
  await app.write("REP_PUBLIC_A=1\n");
  await using command = await app.start();
  const stream = await openStream(command, 0);
  assertEquals(valuesOf(await stream.take(3)), ["1", "1", "no B"]);
  await stream.close();
});

Deno.test("a restart does not reset the rate limit", async () => {
  await using app = await makeApp("REP_SENSITIVE_S=x\n");
  const statuses = [];
  for (let round = 0; round < 2; round++) {
    await using command = await app.start();
    for (let i = 0; i < 6; i++) {
      const response = await fetch(`${command.url}/rep/session-key`);
      await response.body?.cancel();
      statuses.push(response.status);
    }
    await kill(command);
  }
  assertEquals(statuses, [...Array<number>(10).fill(200), 429, 429]);
});

Deno.test("SIGTERM and SIGINT end every stream, and the process with code 0", async () => {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    const flags = ["--hot-reload", "--kv", ":memory:", "--drain=200ms"];
    await using command = await startCommand(flags);
    const streams = [await openStream(command), await openStream(command)];
    command.signal(signal);
    for (const stream of streams) assertEquals(await stream.next(), undefined);
    assertEquals(await command.ended(), 0);
    const stopped = await command.logged(({ msg }) => msg === "rep.stopped");
    assertEquals(stopped.level, "INFO");
  }
});

Deno.test("file_watch and poll see a change of the env file without being told", async () => {
  const modes = [
    ["--hot-reload-mode=file_watch"],
    ["--hot-reload-mode=poll", "--poll-interval=1s"],
  ];
  for (const mode of modes) {
    await using app = await makeApp("REP_PUBLIC_A=1\n");
    await using command = await app.start(...mode);
    const stream = await openStream(command);
    await app.write("REP_PUBLIC_A=2\n");
    assertEquals(valuesOf(await stream.take(1)), ["2"]);
    await stream.close();
  }
});
