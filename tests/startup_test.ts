/** What a gateway does, and does not do, between its first line and `rep.listening`: real processes, real ports. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  commandArgs,
  type CommandOutcome,
  runCommand,
  type RunningCommand,
  runServe,
  startCommand,
  startServe,
  startWaitingCommand,
  startWaitingServe,
} from "./_command.ts";
import { readSse, type SseReader } from "./_sse.ts";
import { TempDirectory } from "./_temp.ts";
import { findFreePort } from "../tools/free_port.ts";
import { serveLocally } from "./_serve.ts";

/** A live gateway with a store in a file, an open stream, and a second configuration to start another gateway with. */
interface LiveReplica extends AsyncDisposable {
  directory: TempDirectory;
  live: RunningCommand;
  /** All public events since its start. */
  stream: SseReader;
  port: string;
  /** Tries to start a gateway with another configuration on the same store. */
  startOther(...flags: string[]): Promise<CommandOutcome>;
}

async function startLiveReplica(): Promise<LiveReplica> {
  const directory = await TempDirectory.make({
    "live.env": "REP_PUBLIC_A=live\n",
    "other.env": "REP_PUBLIC_A=other\n",
  });
  const kv = ["--hot-reload", "--kv", directory.at("kv.sqlite3")];
  const live = await startCommand([
    ...kv,
    "--env-file",
    directory.at("live.env"),
  ]);
  const stream = readSse(
    await fetch(`${live.url}/rep/changes`, {
      headers: { "last-event-id": "1" },
    }),
  );
  return {
    directory,
    live,
    stream,
    port: new URL(live.url).port,
    startOther: (...flags) =>
      runCommand([
        "--hostname=127.0.0.1",
        ...kv,
        "--env-file",
        directory.at("other.env"),
        ...flags,
      ]),
    async [Symbol.asyncDispose]() {
      await stream.close();
      await live[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** All public events so far; the live gateway publishes one more value to mark the end. */
async function publishedValues(
  { live, directory, stream }: LiveReplica,
): Promise<unknown[]> {
  await directory.write("live.env", "REP_PUBLIC_A=end\n");
  live.signal("SIGHUP");
  const values: unknown[] = [];
  while (values.at(-1) !== "end") {
    values.push(...await stream.takeValues(1));
  }
  return values;
}

/** A start that fails: its flags, the exit code, and how the message begins. */
interface Failure {
  flags: readonly string[];
  code: number;
  message: string;
}

/** What makes a start beside a live gateway fail. */
const FAILURES: Readonly<Record<string, (replica: LiveReplica) => Failure>> = {
  "a port that is in use": ({ port }) => ({
    flags: ["--port", port],
    code: 1,
    message: `Cannot listen on 127.0.0.1:${port}: Address already in use`,
  }),
  "a health port that is in use": ({ port }) => ({
    flags: ["--port=0", "--health-port", port],
    code: 1,
    message: `Cannot listen on 127.0.0.1:${port}: Address already in use`,
  }),
  "a trigger that cannot be set up": ({ directory }) => {
    const missing = directory.at("missing");
    const watch = ["--hot-reload-mode=file_watch", "--watch-path", missing];
    return {
      flags: ["--port=0", ...watch],
      code: 2,
      message: `Cannot watch ${missing}`,
    };
  },
};

for (const [what, failureOf] of Object.entries(FAILURES)) {
  Deno.test(`a start that fails because of ${what} publishes nothing, and its message says why`, async () => {
    await using replica = await startLiveReplica();
    const { flags, code, message } = failureOf(replica);
    const outcome = await replica.startOther(...flags);
    assertEquals(outcome.code, code, outcome.stderr);
    assertStringIncludes(outcome.stderr, message);
    const last = outcome.stdout.trim().split("\n").at(-1) ?? "";
    const { level, msg, detail } = JSON.parse(last);
    assertEquals([level, msg], ["ERROR", "rep.start.failed"]);
    assertStringIncludes(detail, message);
    assertEquals(await publishedValues(replica), ["live", "end"]);
    assertEquals(await statusOf(replica.live), "healthy");
    const output = replica.live.output.join("\n");
    assertEquals(output.includes("rep.rollout.superseded"), false);
  });
}

/** The status in the health report of a gateway. */
async function statusOf({ url }: RunningCommand): Promise<string> {
  return (await (await fetch(`${url}/rep/health`)).json()).status;
}

Deno.test({
  name: "a start that fails says why once on a terminal",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const command = [Deno.execPath(), ...commandArgs(["--prot"])].map((word) =>
      `'${word}'`
    ).join(" ");
    const args = ["--quiet", "--return", "--command", command, "/dev/null"];
    const { code, stdout } = await new Deno.Command("script", {
      args,
      env: { SHELL: "/bin/sh", LC_ALL: "C" }, // Bash warns of a locale that is not installed
      stdin: "null",
    }).output();
    const message =
      "Cannot use --prot: there is no such option; did you mean --port?";
    assertEquals([code, new TextDecoder().decode(stdout).trim()], [2, message]);
  },
});

Deno.test("rep.listening names the path under which everything is served", async () => {
  const flags = ["--kv=:memory:", "--base-path=/app"];
  await using command = await startCommand(flags);
  assertEquals(await statusOf(command), "healthy");
});

Deno.test("deno serve publishes nothing if its port is in use", async () => {
  await using replica = await startLiveReplica();
  const { directory, port } = replica;
  const env = {
    REP_GATEWAY_HOT_RELOAD: "true",
    REP_GATEWAY_KV: directory.at("kv.sqlite3"),
    REP_GATEWAY_ENV_FILE: directory.at("other.env"),
  };
  const { code, stdout, stderr } = await runServe(["--port", port], env);
  assertEquals(code, 1, stderr);
  assertStringIncludes(stdout, "AddrInUse: Address already in use");
  assertEquals(await publishedValues(replica), ["live", "end"]);
});

Deno.test("deno serve rejects options that only the command can follow", async () => {
  const options: Record<string, string> = {
    TLS_CERT: "a.pem",
    HEALTH_PORT: "9000",
    STOP_DELAY: "5s",
    PORT: "8080",
    HOSTNAME: "127.0.0.1",
  };
  for (const [name, value] of Object.entries(options)) {
    const env: Record<string, string> = { [`REP_GATEWAY_${name}`]: value };
    if (name === "TLS_CERT") env.REP_GATEWAY_TLS_KEY = "b.pem";
    const { code, stderr } = await runServe(["--port=0"], env);
    const flag = `--${name.toLowerCase().replace("_", "-")}`;
    assertEquals(code, 2, stderr);
    assertStringIncludes(stderr, `Cannot use ${flag} with deno serve: `);
  }
});

Deno.test("deno serve --parallel rejects a store in memory, which its threads could not share", async () => {
  const { code, stderr } = await runServe(["--parallel", "--port", "0"], {
    REP_GATEWAY_KV: ":memory:",
    DENO_JOBS: "3",
  });
  assertEquals(code, 2, stderr);
  assertStringIncludes(stderr, "Cannot use deno serve --parallel in memory: ");
  await using single = await startServe([], { REP_GATEWAY_KV: ":memory:" });
  assertEquals(await statusOf(single), "healthy");
  single.signal("SIGTERM");
  assertEquals(await single.ended(), 0);
});

/** A server that accepts connections and never answers, as a store. */
function silentServer(): { url: string; close(): void } & Disposable {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connections: Deno.Conn[] = [];
  void (async () => {
    for await (const connection of listener) connections.push(connection);
  })();
  let isOpen = true;
  function close() {
    if (!isOpen) return;
    isOpen = false;
    for (const connection of connections) connection.close();
    listener.close();
  }
  return {
    url: `http://127.0.0.1:${listener.addr.port}`,
    close,
    [Symbol.dispose]: close,
  };
}

/** Fetches as soon as something listens: for a minute at most. */
async function fetchWhenBound(url: string): Promise<Response> {
  const end = performance.now() + 60_000;
  for (;;) {
    try {
      return await fetch(url);
    } catch (error) {
      const isWaiting = error instanceof TypeError; // nothing listens yet
      if (!isWaiting || performance.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

Deno.test("while a gateway starts, health answers 503 starting and other requests wait until it is ready", async () => {
  using store = silentServer();
  const port = String(findFreePort());
  const env = { DENO_KV_ACCESS_TOKEN: "x".repeat(16), REP_PUBLIC_A: "1" };
  const flags = ["--port", port, "--kv", store.url, "--start-without-store"];
  const starting = startCommand(flags, env);
  const health = await fetchWhenBound(`http://127.0.0.1:${port}/rep/health`);
  const report = await health.json();
  assertEquals([health.status, report.status, report.variables], [
    503,
    "starting",
    {
      public: 0,
      sensitive: 0,
      server: 0,
    },
  ]);
  assertEquals(health.headers.get("cache-control"), "no-store");
  let isAnswered = false;
  const waiting = fetch(`http://127.0.0.1:${port}/rep/client.js`).finally(() =>
    isAnswered = true
  );
  const posted = await fetch(`http://127.0.0.1:${port}/rep/health`, {
    method: "POST",
    body: "",
  });
  await posted.body?.cancel();
  assertEquals([posted.status, isAnswered], [405, false]);
  store.close(); // so that the gateway starts without it now, and not when it has waited for 5 s
  await using command = await starting;
  const script = await waiting;
  await script.body?.cancel();
  assertEquals(script.status, 200);
  assertEquals(await statusOf(command), "degraded");
});

Deno.test("while a gateway starts, its health port is live but not ready; then it has metrics", async () => {
  using store = silentServer();
  const [port, healthPort] = [findFreePort(), findFreePort()].map(String);
  const env = { DENO_KV_ACCESS_TOKEN: "x".repeat(16) };
  const starting = startCommand([
    "--port",
    port!,
    "--health-port",
    healthPort!,
    "--kv",
    store.url,
    "--start-without-store",
  ], env);
  const probe = async (path: string) => {
    const response = await fetchWhenBound(
      `http://127.0.0.1:${healthPort}${path}`,
    );
    return [response.status, await response.text()];
  };
  assertEquals([await probe("/readyz"), await probe("/livez")], [[
    503,
    "starting\n",
  ], [200, "live\n"]]);
  store.close();
  await using _command = await starting;
  assertEquals(await probe("/readyz"), [200, "degraded\n"]);
  const [status, text] = await probe("/metrics");
  assertEquals([status, String(text).includes("\nrep_store_up 0\n")], [
    200,
    true,
  ]);
});

/** The URL of a store that nothing listens at. */
function absentStore(): string {
  return `http://127.0.0.1:${findFreePort()}`;
}

const TOKEN = { DENO_KV_ACCESS_TOKEN: "x".repeat(16) };

Deno.test("requests wait until the store could not be read for the first time, and then get 503; health says why", async () => {
  using store = silentServer();
  const [port, healthPort] = [findFreePort(), findFreePort()];
  const flags = ["--health-port", String(healthPort), "--kv", store.url];
  const starting = startWaitingCommand(flags, TOKEN, port);
  const waiting = fetchWhenBound(`http://127.0.0.1:${port}/rep/client.js`);
  const probe = async (path: string) => {
    const url = `http://127.0.0.1:${healthPort}${path}`;
    const response = await fetchWhenBound(url);
    return [response.status, await response.text()];
  };
  assertEquals(await probe("/readyz"), [503, "starting\n"]);
  store.close();
  await using _ = await starting;
  const { status, headers, body } = await waiting;
  await body?.cancel();
  assertEquals([status, headers.get("retry-after")], [503, "5"]);
  assertEquals(await probe("/readyz"), [503, "starting store_unavailable\n"]);
  assertEquals(await probe("/livez"), [200, "live\n"]);
  const [scraped, metrics] = await probe("/metrics");
  const isDown = String(metrics).includes("\nrep_store_up 0\n");
  assertEquals([scraped, isDown], [200, true]);
});

Deno.test("SIGTERM ends a process that waits for its store at once, although --stop-delay and --drain are long", async () => {
  const flags = ["--hot-reload", "--stop-delay=10m", "--drain=10m"];
  const kv = absentStore();
  await using command = await startWaitingCommand(
    [...flags, "--kv", kv],
    TOKEN,
  );
  command.signal("SIGTERM");
  assertEquals(await command.ended(), 0);
  await command.logged(({ msg }) => msg === "rep.stopped");
});

Deno.test("deno serve answers 503 while it waits for its store, and ends with SIGTERM", async () => {
  const env = { ...TOKEN, REP_GATEWAY_KV: absentStore() };
  await using command = await startWaitingServe(env);
  const { status, body } = await fetch(command.url);
  await body?.cancel();
  assertEquals(status, 503);
  command.signal("SIGTERM");
  assertEquals(await command.ended(), 0);
});

Deno.test("the token in the file that DENO_KV_ACCESS_TOKEN_FILE names is sent to the store", async () => {
  await using directory = await TempDirectory.make({
    token: "token-in-a-file\n",
  });
  const received = Promise.withResolvers<string | null>();
  const respond = ({ headers }: Request) => {
    received.resolve(headers.get("authorization"));
    return new Response(null, { status: 401 });
  };
  await using store = serveLocally(respond);
  const env = {
    DENO_KV_ACCESS_TOKEN: "", // other tests set it for a moment
    DENO_KV_ACCESS_TOKEN_FILE: directory.at("token"),
  };
  const kv = store.url;
  const args = ["--hostname=127.0.0.1", "--port=0", "--kv", kv];
  const { code } = await runCommand(args, env);
  assertEquals([await received.promise, code], ["Bearer token-in-a-file", 1]);
});
