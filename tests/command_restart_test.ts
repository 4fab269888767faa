import { assert, assertEquals } from "@std/assert";
import { type RunningCommand, startCommand } from "./_command.ts";
import type { Message } from "./_sse.ts";
import { openStream } from "./_stream_client.ts";
import { TempDirectory } from "./_temp.ts";

function valuesOf(messages: readonly Message[]): unknown[] {
  return messages.map(({ data }) => data.value ?? `no ${data.key}`);
}

function areRising(messages: readonly Message[]): boolean {
  return messages.every(({ id }, index) =>
    index === 0 || id > (messages[index - 1]?.id ?? 0)
  );
}

Deno.test("a gateway that was killed goes on where it was: replay is complete, and comes before anything new", async () => {
  await using directory = await TempDirectory.make();
  const env = directory.at("app.env");
  const flags = [
    "--hot-reload",
    "--env-file",
    env,
    "--kv",
    directory.at("kv.sqlite3"),
  ];
  const write = (value: string) =>
    Deno.writeTextFile(env, `REP_PUBLIC_A=${value}\nREP_PUBLIC_B=stays\n`);
  const reload = async (command: RunningCommand, value: string) => {
    await write(value);
    command.signal("SIGHUP");
    await command.logged(({ msg, key, id }) =>
      msg === "rep.config.changed" && key === "A" && Number(id) > 0
    );
  };

  await write("1");
  const seen: Message[] = [];
  {
    await using command = await startCommand(flags);
    const stream = await openStream(command);
    for (const value of ["2", "3"]) {
      await reload(command, value);
      seen.push(...await stream.take(1));
    }
    await stream.close();
    for (const value of ["4", "5"]) {
      await write(value);
      command.signal("SIGHUP");
      const all = await openStream(command, seen.at(-1)?.id);
      await all.take(Number(value) - 3); // it has been published, though the client does not know of it
      await all.close();
    }
    command.signal("SIGKILL");
    await command.ended();
  }

  await write("6"); // while nobody runs
  await using command = await startCommand(flags);
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
  await using directory = await TempDirectory.make();
  const env = directory.at("app.env");
  const flags = [
    "--hot-reload",
    "--env-file",
    env,
    "--kv",
    directory.at("kv.sqlite3"),
  ];
  await Deno.writeTextFile(env, "REP_PUBLIC_A=1\nREP_PUBLIC_B=1\n");
  {
    await using command = await startCommand(flags);
    command.signal("SIGKILL");
    await command.ended();
  }
  await Deno.writeTextFile(env, "REP_PUBLIC_A=1\n");
  await using command = await startCommand(flags);
  const stream = await openStream(command, 0);
  assertEquals(valuesOf(await stream.take(3)), ["1", "1", "no B"]);
  await stream.close();
});

Deno.test("a restart does not reset the rate limit", async () => {
  await using directory = await TempDirectory.make();
  const flags = ["--kv", directory.at("kv.sqlite3")];
  const env = { REP_SENSITIVE_S: "x" };
  const statuses = [];
  for (let round = 0; round < 2; round++) {
    await using command = await startCommand(flags, env);
    for (let i = 0; i < 6; i++) {
      const response = await fetch(`${command.url}/rep/session-key`);
      await response.body?.cancel();
      statuses.push(response.status);
    }
    command.signal("SIGKILL");
    await command.ended();
  }
  assertEquals(statuses, [...Array<number>(10).fill(200), 429, 429]);
});

Deno.test("SIGTERM and SIGINT end the streams spread over the drain, and the process with code 0", async () => {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    await using command = await startCommand([
      "--hot-reload",
      "--kv",
      ":memory:",
      "--drain=2s",
    ]);
    const streams = await Promise.all(
      Array.from({ length: 4 }, () => openStream(command)),
    );
    const start = performance.now();
    command.signal(signal);
    const ends = await Promise.all(
      streams.map(async (
        stream,
      ) => [await stream.next(), performance.now() - start]),
    );
    assertEquals(ends.map(([message]) => message), [
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    const times = ends.map(([, ms]) => Number(ms)).sort((a, b) => a - b);
    for (const [index, ms] of times.entries()) { // at 0, 0.5, 1 and 1.5 s; the process may be late, but not early
      assert(
        ms > 500 * index - 50 && ms < 500 * index + 1_500,
        `stream ${index + 1} ended after ${ms} ms`,
      );
    }
    assertEquals(await command.ended(), 0);
    assertEquals(
      (await command.logged(({ msg }) => msg === "rep.stopped")).level,
      "INFO",
    );
  }
});

Deno.test("file_watch and poll see a change of the env file without being told", async () => {
  for (const mode of [["file_watch"], ["poll", "--poll-interval=1s"]]) {
    await using directory = await TempDirectory.make();
    const env = directory.at("app.env");
    await Deno.writeTextFile(env, "REP_PUBLIC_A=1\n");
    const flags = [
      "--hot-reload",
      "--env-file",
      env,
      "--kv=:memory:",
      "--hot-reload-mode",
      ...mode,
    ];
    await using command = await startCommand(flags);
    const stream = await openStream(command);
    await Deno.writeTextFile(directory.at("new"), "REP_PUBLIC_A=2\n");
    await Deno.rename(directory.at("new"), env);
    assertEquals(valuesOf(await stream.take(1)), ["2"]);
    await stream.close();
  }
});

Deno.test({
  name:
    "a reload rejects an env file that is a FIFO, the next one reads the file again, and SIGTERM ends the process",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using directory = await TempDirectory.make({
      "app.env": "REP_PUBLIC_A=1",
    });
    const path = directory.at("app.env");
    await using command = await startCommand([
      "--kv=:memory:",
      "--hot-reload",
      "--env-file",
      path,
    ]);
    for (const value of ["2", "3"]) {
      await Deno.remove(path);
      assertEquals(
        (await new Deno.Command("mkfifo", { args: [path] }).output()).success,
        true,
      );
      command.signal("SIGHUP");
      await command.logged(({ msg, issues }) =>
        msg === "rep.config.rejected" && String(issues).includes("regular file")
      );
      await Deno.remove(path);
      await directory.write("app.env", `REP_PUBLIC_A=${value}`);
      command.signal("SIGHUP");
      await command.logged(({ msg }) => msg === "rep.config.reloaded");
      command.output.length = 0;
    }
    command.signal("SIGTERM");
    assertEquals(await command.ended(), 0);
  },
});
