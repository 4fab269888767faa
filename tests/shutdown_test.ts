/** What happens between a signal and the end of the process: real processes, a real upstream. */
import {
  assertEquals,
  assertGreaterOrEqual,
  assertLess,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { type RunningCommand, startCommand, startServe } from "./_command.ts";
import { serveUploads, startUpload } from "./_slow_upload.ts";
import { readSse } from "./_sse.ts";
import { TempDirectory } from "./_temp.ts";
import { serveLocally } from "./_serve.ts";

const encoder = new TextEncoder();

/** An upstream whose responses the test finishes. */
function startUpstream() {
  const asked = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const finished = Promise.withResolvers<void>();
  const server = serveLocally(async (request) => {
    asked.resolve();
    if (request.headers.get("upgrade") === "websocket") return echo(request);
    await begun.promise;
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(encoder.encode("first,")),
      async pull(controller) {
        await finished.promise;
        controller.enqueue(encoder.encode("last"));
        controller.close();
      },
    }, { highWaterMark: 0 });
    return new Response(body, { headers: { "content-type": "text/plain" } });
  });
  return {
    url: server.url,
    /** Resolves when a request has arrived. */
    asked: asked.promise,
    /** Sends the headers and the first part of the body. */
    begin: begun.resolve,
    /** Sends the rest of the body. */
    finish: finished.resolve,
    async [Symbol.asyncDispose]() {
      begun.resolve();
      finished.resolve();
      await server.shutdown();
    },
  };
}

function echo(request: Request) {
  const { socket, response } = Deno.upgradeWebSocket(request);
  socket.addEventListener("message", ({ data }) => socket.send(`echo ${data}`));
  return response;
}

function startProxy(
  upstream: { url: string },
  ...flags: string[]
) {
  return startCommand([
    "--upstream",
    upstream.url,
    "--kv=:memory:",
    ...flags,
  ]);
}

/** A drain that does not end with its option would take 10 s, as by default. */
const DEFAULT_DRAIN_MS = 10_000;

/** Waits until shutdown has begun. */
function stopping(command: RunningCommand): Promise<unknown> {
  return command.logged(({ msg }) => msg === "rep.stopping");
}

Deno.test("SIGTERM lets a proxied request in flight, and its body, finish", async () => {
  await using upstream = startUpstream();
  await using command = await startProxy(upstream);
  const response = fetch(`${command.url}/slow`);
  await upstream.asked;
  command.signal("SIGTERM");
  await stopping(command);
  await new Promise((resolve) => setTimeout(resolve, 100)); // far longer than it took to cut requests off
  upstream.begin();
  const { status, body } = await response;
  assertEquals(status, 200);
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value ?? "";
  upstream.finish();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    text += read.value;
  }
  assertEquals(text, "first,last");
  assertEquals(await command.ended(), 0);
});

/** Connects to a command without TLS. */
async function connect({ url }: RunningCommand) {
  const port = Number(new URL(url).port);
  return await Deno.connect({ hostname: "127.0.0.1", port });
}

/** The events that count what was cut off. */
function cutOff({ output }: RunningCommand): unknown[] {
  const lines = output.filter((line) => line.includes("rep.requests.cut_off"));
  return lines.map((line) => JSON.parse(line).requests);
}

Deno.test("SIGTERM lets an upload over HTTP/1.1 finish, whose body is still being received", async () => {
  await using upstream = serveUploads();
  await using command = await startProxy(upstream);
  using upload = await startUpload(await connect(command));
  await upstream.begun;
  command.signal("SIGTERM");
  await stopping(command);
  await new Promise((resolve) => setTimeout(resolve, 200)); // far longer than it took to cut uploads off
  await upload.finish();
  assertEquals(await upload.statusLine(), "HTTP/1.1 200 OK");
  assertEquals([await command.ended(), cutOff(command)], [0, []]);
});

Deno.test("SIGTERM cuts off an upload that does not finish within --drain, and logs it", async () => {
  await using upstream = serveUploads();
  await using command = await startProxy(upstream, "--drain=300ms");
  using upload = await startUpload(await connect(command));
  await upstream.begun;
  const start = performance.now();
  command.signal("SIGTERM");
  assertEquals(await upload.statusLine(), "HTTP/1.1 502 Bad Gateway");
  assertEquals([await command.ended(), cutOff(command)], [0, [1]]);
  assertLess(performance.now() - start, DEFAULT_DRAIN_MS);
});

Deno.test("SIGTERM ends a proxied request that does not finish within --drain", async () => {
  await using upstream = startUpstream();
  await using command = await startProxy(upstream, "--drain=300ms");
  upstream.begin();
  const response = await fetch(`${command.url}/slow`);
  const start = performance.now();
  command.signal("SIGTERM");
  const text = await response.text().catch(() => "cut off");
  assertEquals(text, "cut off");
  assertEquals(await command.ended(), 0);
  const ms = performance.now() - start;
  assertGreaterOrEqual(ms, 300);
  assertLess(ms, DEFAULT_DRAIN_MS);
});

for (
  const [name, start] of [["a gateway", startCommand], [
    "deno serve",
    startServe,
  ]] as const
) {
  Deno.test(`SIGTERM ends the streams of ${name} that is alone at once`, async () => {
    const env = { REP_GATEWAY_HOT_RELOAD: "true", REP_GATEWAY_KV: ":memory:" };
    await using command = await start([], env);
    const streams = await Promise.all(
      Array.from({ length: 4 }, () => fetch(`${command.url}/rep/changes`)),
    );
    const begun = performance.now();
    command.signal("SIGTERM");
    await Promise.all(streams.map((stream) => stream.text()));
    assertEquals(await command.ended(), 0);
    assertLess(performance.now() - begun, DEFAULT_DRAIN_MS / 2);
  });
}

Deno.test("SIGTERM leaves a proxied WebSocket open while the gateway drains", async () => {
  await using upstream = startUpstream();
  await using command = await startProxy(upstream, "--drain=1m");
  const socket = new WebSocket(command.url.replace("http", "ws"));
  const next = (type: string) =>
    new Promise<Event>((resolve) => socket.addEventListener(type, resolve));
  await next("open");
  command.signal("SIGTERM");
  await stopping(command);
  const answer = next("message");
  socket.send("still there?");
  assertEquals((await answer as MessageEvent).data, "echo still there?");
  const closed = next("close");
  command.signal("SIGTERM");
  assertNotEquals((await closed as CloseEvent).code, 1000);
  assertEquals(await command.ended(), 1);
});

Deno.test("--stop-delay serves everything while health answers 503 stopping, and a second signal exits at once, with code 1", async () => {
  const flags = ["--stop-delay=1m", "--hot-reload", "--kv=:memory:"];
  await using command = await startCommand(flags);
  command.signal("SIGTERM");
  await stopping(command);
  const health = await fetch(`${command.url}/rep/health`);
  const { status } = await health.json();
  assertEquals([health.status, status], [503, "stopping"]);
  const script = await fetch(`${command.url}/rep/client.js`);
  await script.body?.cancel();
  assertEquals(script.status, 200);
  const stream = readSse(await fetch(`${command.url}/rep/changes`));
  await stream.pull();
  assertStringIncludes(stream.text(), "connected"); // a new stream, which is not turned away
  command.signal("SIGINT");
  assertEquals(await command.ended(), 1);
  await stream.close().catch(() => {}); // the process has cut it off
});

Deno.test("after --stop-delay, streams end, and the process with code 0", async () => {
  const flags = ["--stop-delay=300ms", "--hot-reload", "--kv=:memory:"];
  await using command = await startCommand(flags);
  const stream = readSse(await fetch(`${command.url}/rep/changes`));
  await stream.pull();
  const start = performance.now();
  command.signal("SIGTERM");
  assertEquals(await stream.next(), undefined);
  assertEquals(await command.ended(), 0);
  assertGreaterOrEqual(performance.now() - start, 300);
});

Deno.test({
  name: "a FIFO in the watched directory stops neither SIGTERM nor changes",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using directory = await TempDirectory.make({
      "app.env": "REP_PUBLIC_A=1\n",
    });
    await using command = await startCommand([
      "--hot-reload",
      "--hot-reload-mode=file_watch",
      "--watch-path",
      directory.path,
      "--env-file",
      directory.at("app.env"),
      "--kv=:memory:",
    ]);
    for (const name of ["pipe", "REP_PUBLIC_PIPE"]) {
      const args = [directory.at(name)];
      await new Deno.Command("mkfifo", { args }).output();
    }
    await directory.write("app.env", "REP_PUBLIC_A=2\n");
    await command.logged(({ msg }) => msg === "rep.config.changed");
    command.signal("SIGTERM");
    assertEquals(await command.ended(), 0);
  },
});
