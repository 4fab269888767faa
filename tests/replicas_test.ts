import { assert, assertEquals } from "@std/assert";
import {
  commandArgs,
  type RunningCommand,
  startCommand,
  startServe,
} from "./_command.ts";
import type { Message } from "./_sse.ts";
import { openStream } from "./_stream_client.ts";
import { TempDirectory } from "./_temp.ts";
import { medianOf } from "./_time.ts";

/** The time within which a change must reach every client, unless the machine is busy. */
const MAX_DELAY_MS = 2_000;

async function directoryWith(env: string) {
  const directory = await TempDirectory.make({ "app.env": env });
  const args = [
    "--hot-reload",
    "--env-file",
    directory.at("app.env"),
    "--kv",
    directory.at("kv.sqlite3"),
  ];
  return { directory, args };
}

async function keyOf(
  { url }: RunningCommand,
  query = "",
): Promise<[number, string | undefined]> {
  const response = await fetch(`${url}/rep/session-key${query}`);
  return [response.status, (await response.json()).key];
}

function areEqual(messages: readonly Message[][]) {
  return messages.every((list) =>
    JSON.stringify(list) === JSON.stringify(messages[0])
  );
}

Deno.test("two processes on one file deliver a change to every client within 2 s, once, with one id", async () => {
  const { directory, args } = await directoryWith("REP_PUBLIC_A=0\n");
  await using _directory = directory;
  await using first = await startCommand(args);
  await using second = await startCommand(args);
  const streams = [await openStream(first), await openStream(second)];
  const times: number[] = [];
  for (let change = 1; change <= 5; change++) {
    await directory.write("app.env", `REP_PUBLIC_A=${change}\n`);
    const start = performance.now();
    first.signal("SIGHUP"); // only one of them reloads
    const received = await Promise.all(streams.map((stream) => stream.take(1)));
    times.push(performance.now() - start);
    assert(areEqual(received), JSON.stringify(received));
    second.signal("SIGHUP");
    await second.logged(() =>
      second.output.filter((line) => line.includes("rep.config.reloaded"))
        .length >= change
    );
  }
  assert(medianOf(times) < MAX_DELAY_MS, `the changes took ${times} ms`);
  for (const stream of streams) await stream.close();
  const all = await openStream(second, 0);
  assertEquals(await all.takeValues(6), [
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
  ]); // none twice
  await all.close();
});

Deno.test("two processes on one file issue each of 24 clients exactly ten keys, which they count together", async () => {
  const { directory, args } = await directoryWith("REP_SENSITIVE_S=x\n");
  await using _directory = directory;
  const flags = [...args, "--trusted-proxies", "127.0.0.1"];
  await using first = await startCommand(flags);
  await using second = await startCommand(flags);
  const clients = Array.from({ length: 24 }, (_, index) => `192.0.2.${index}`);
  const issued: string[] = [];
  for (let round = 0; round < 7; round++) {
    // Fewer at once than what makes a process take the store for overloaded, and count in memory.
    await Promise.all(
      [first, second].flatMap(({ url }) =>
        clients.map(async (client) => {
          const response = await fetch(`${url}/rep/session-key`, {
            headers: { "x-forwarded-for": client },
          });
          await response.body?.cancel();
          if (response.status === 200) issued.push(client);
        })
      ),
    );
  }
  assertEquals(
    clients.map((client) => issued.filter((it) => it === client).length),
    clients.map(() => 10),
  );
});

Deno.test("the threads of deno serve --parallel share the event ids, the rate limit and the keys", async () => {
  const directory = await TempDirectory.make();
  await using _directory = directory;
  const env = {
    REP_PUBLIC_A: "0",
    REP_SENSITIVE_S: "x",
    REP_GATEWAY_HOT_RELOAD: "true",
    REP_GATEWAY_KV: directory.at("kv.sqlite3"),
    REP_GATEWAY_DRAIN: "200ms",
  };
  await using served = await startServe(["--parallel"], {
    ...env,
    DENO_JOBS: "3",
  });
  const responses = await Promise.all(
    Array.from({ length: 30 }, () => keyOf(served)),
  );
  assertEquals(responses.filter(([status]) => status === 200).length, 10);
  assertEquals(
    new Set(responses.map(([, key]) => key).filter((key) => key !== undefined))
      .size,
    1,
  );
  const streams = await Promise.all(
    Array.from({ length: 12 }, () => openStream(served)),
  ); // spread over all threads
  await setVariable(directory.at("kv.sqlite3"), "A=1");
  const received = await Promise.all(streams.map((stream) => stream.take(1)));
  assert(areEqual(received), JSON.stringify(received));
  served.signal("SIGTERM");
  assertEquals(
    await Promise.all(streams.map((stream) => stream.next())),
    streams.map(() => undefined),
  );
  assertEquals(await served.ended(), 0);
});

/** Sets a stored variable with the command, in a process of its own. */
async function setVariable(kv: string, assignment: string) {
  const args = commandArgs(["set", assignment, "--kv", kv]);
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args,
    stdin: "null",
  }).output();
  assertEquals(code, 0, new TextDecoder().decode(stderr));
}
