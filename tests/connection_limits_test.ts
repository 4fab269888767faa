/** What clients can do to the connections of `--server node`: real processes, real sockets. */
import { assertEquals, assertGreater, assertLess } from "@std/assert";
import { runCommand, type RunningCommand, startCommand } from "./_command.ts";

const IS_WINDOWS = Deno.build.os === "windows";

interface NodeOptions {
  flags?: readonly string[];
  /** For the head of a request, and for all of it. */
  timeout?: string;
  maxFiles?: number;
}

function startNode({ flags = [], timeout = "1s", maxFiles }: NodeOptions = {}): Promise<RunningCommand> {
  const timeouts = ["--header-timeout", timeout, "--request-timeout", timeout, "--keep-alive-timeout", "1s"];
  return startCommand(["--server", "node", "--kv", ":memory:", ...timeouts, ...flags], {}, undefined, maxFiles);
}

async function connect({ url }: RunningCommand, text = "", signal?: AbortSignal): Promise<Deno.TcpConn> {
  const address = { hostname: "127.0.0.1", port: Number(new URL(url).port) };
  const connection = await Deno.connect({ ...address, ...(signal && { signal }) });
  await connection.write(new TextEncoder().encode(text.replaceAll("\n", "\r\n")));
  return connection;
}

/** Reads until the server closes, and returns the first line and how long it took. */
async function readToEnd(connection: Deno.TcpConn): Promise<[line: string | undefined, ms: number]> {
  const start = performance.now();
  const text = await new Response(connection.readable).text().catch(() => "");
  return [text.split("\r\n")[0], performance.now() - start];
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function statusOf({ url }: RunningCommand): Promise<string> {
  return (await (await fetch(`${url}/rep/health`, { headers: { connection: "close" } })).json()).status;
}

/** What a client sends before it falls silent, and the first line of the response that it gets at the end. */
const SILENT_CLIENTS: readonly [what: string, text: string, line: string][] = [
  ["nothing", "", "HTTP/1.1 408 Request Timeout"],
  ["half a head", "GET /rep/health HTTP/1.1\nHost: x\n", "HTTP/1.1 408 Request Timeout"],
  ["a request and then nothing", "GET /rep/health HTTP/1.1\nHost: x\n\n", "HTTP/1.1 200 OK"],
];

for (const [what, text, line] of SILENT_CLIENTS) {
  Deno.test(`--server node disconnects a client that sends ${what}`, async () => {
    await using command = await startNode();
    const [firstLine, ms] = await readToEnd(await connect(command, text));
    assertEquals(firstLine, line);
    assertGreater(ms, 500);
    assertLess(ms, 6_000);
  });
}

Deno.test({
  name: "1,084 silent connections with 1,024 file descriptors do not stop --server node",
  ignore: IS_WINDOWS,
  async fn() {
    await using command = await startNode({ maxFiles: 1_024 });
    const silent = await Promise.all(Array.from({ length: 1_084 }, () => connect(command)));
    const start = performance.now();
    while (await statusOf(command).catch(() => "refused") !== "healthy") { // until --header-timeout
      assertLess(performance.now() - start, 10_000);
    }
    const failures = command.output.filter((line) => line.includes("rep.listener.failed"));
    assertEquals(failures, []);
    for (const connection of silent) connection.close();
  },
});

Deno.test({
  name: "--server node listens again after it ran out of file descriptors",
  ignore: IS_WINDOWS,
  async fn() {
    const flags = ["--max-connections", "10000"];
    await using command = await startNode({ flags, timeout: "1h", maxFiles: 128 });
    const silent: Deno.TcpConn[] = [];
    const attempts: Promise<unknown>[] = [];
    const end = new AbortController();
    const isExhausted = () => silent.length >= 128 || attempts.length >= silent.length + 20; // the backlog is full
    while (!isExhausted()) {
      const attempt = connect(command, "", end.signal).then((connection) => silent.push(connection), () => {});
      attempts.push(attempt);
      await Promise.race([attempt, delay(100)]);
    }
    end.abort();
    await Promise.all(attempts);
    for (const connection of silent) connection.close(); // the probe needs a free descriptor, too
    await command.logged(({ msg }) => msg === "rep.listener.failed");
    const isAgain = () => command.output.filter((line) => line.includes('"rep.listening"')).length === 2;
    await command.logged(isAgain);
    assertEquals(await statusOf(command), "healthy");
  },
});

Deno.test("--max-connections refuses further connections, and logs how many at the end", async () => {
  await using command = await startNode({ flags: ["--max-connections", "2"] });
  const open = [await connect(command), await connect(command)];
  const [line] = await readToEnd(await connect(command, "GET / HTTP/1.1\nHost: x\n\n"));
  assertEquals(line, "");
  for (const connection of open) connection.close();
  command.signal("SIGTERM");
  assertEquals(await command.ended(), 0);
  const { refused, max_connections } = await command.logged(({ msg }) => msg === "rep.connections.refused");
  assertEquals([refused, max_connections], [1, 2]);
});

/** Options that cannot be used together, and the message. */
const CONFLICTS: readonly [flags: string[], message: string][] = [
  [["--max-connections", "10"], "Cannot use --max-connections with --server deno: expected --server node"],
  [["--header-timeout", "1s"], "Cannot use --header-timeout with --server deno: expected --server node"],
  [
    ["--server", "node", "--header-timeout", "10m"],
    "Cannot use --header-timeout 10m with --request-timeout 5m: expected a time that is not longer",
  ],
];

for (const [flags, message] of CONFLICTS) {
  Deno.test(`the command rejects ${flags.join(" ")}`, async () => {
    const { code, stderr } = await runCommand(["--hostname", "127.0.0.1", "--port", "0", ...flags]);
    assertEquals([code, stderr.includes(message)], [2, true], stderr);
  });
}
