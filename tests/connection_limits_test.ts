/** What clients can do to the connections of `--server node`: real processes, real sockets. */
import { assertEquals, assertGreater, assertLess } from "@std/assert";
import { type RunningCommand, startCommand } from "./_command.ts";

const IS_WINDOWS = Deno.build.os === "windows";

function startNode(flags: readonly string[] = [], maxFiles?: number): Promise<RunningCommand> {
  const timeouts = ["--header-timeout", "1s", "--request-timeout", "2s", "--keep-alive-timeout", "1s"];
  return startCommand(["--server", "node", "--kv", ":memory:", ...timeouts, ...flags], {}, undefined, maxFiles);
}

async function connect({ url }: RunningCommand, text = ""): Promise<Deno.TcpConn> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port: Number(new URL(url).port) });
  await connection.write(new TextEncoder().encode(text.replaceAll("\n", "\r\n")));
  return connection;
}

/** Reads until the server closes, and returns the first line and how long it took. */
async function readToEnd(connection: Deno.TcpConn): Promise<[line: string | undefined, ms: number]> {
  const start = performance.now();
  const text = await new Response(connection.readable).text().catch(() => "");
  return [text.split("\r\n")[0], performance.now() - start];
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
    await using command = await startNode([], 1_024);
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
    await using command = await startNode(["--max-connections", "10000"], 128);
    const silent = await Promise.all(Array.from({ length: 300 }, () => connect(command)));
    for (const connection of silent) connection.close();
    await command.logged(({ msg }) => msg === "rep.listener.failed");
    const isAgain = () => command.output.filter((line) => line.includes('"rep.listening"')).length === 2;
    await command.logged(isAgain);
    assertEquals(await statusOf(command), "healthy");
  },
});

Deno.test("--max-connections refuses further connections, and logs how many at the end", async () => {
  await using command = await startNode(["--max-connections", "2"]);
  const open = [await connect(command), await connect(command)];
  const [line] = await readToEnd(await connect(command, "GET / HTTP/1.1\nHost: x\n\n"));
  assertEquals(line, "");
  for (const connection of open) connection.close();
  command.signal("SIGTERM");
  assertEquals(await command.ended(), 0);
  const { refused, max_connections } = await command.logged(({ msg }) => msg === "rep.connections.refused");
  assertEquals([refused, max_connections], [1, 2]);
});

Deno.test("--server deno rejects options that only --server node follows", async () => {
  for (const [flag, value] of [["--max-connections", "10"], ["--header-timeout", "1s"]] as const) {
    const error = await startCommand([flag, value]).then(() => "started", String);
    assertEquals(error.includes(`Cannot use ${flag} with --server deno: expected --server node`), true, error);
  }
});
