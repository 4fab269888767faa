import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertMatch,
  assertRejects,
  assertThrows,
} from "@std/assert";
import {
  listen,
  type Listener,
  type ListenOptions,
} from "../../../src/command/start/listen.ts";
import { BrokenBodyError } from "../../../src/core/http/broken_body.ts";
import { createGateway } from "../../../src/gateway.ts";
import { type Clock, systemClock } from "../../../src/core/values/clock.ts";
import { bareProcess } from "../../_bare_process.ts";
import { captureLog } from "../../_gateway.ts";

type ListenStage = Awaited<ReturnType<typeof stage>>;

const NO_UPLOADS = () => Promise.resolve();
const COMMON = {
  hostname: "127.0.0.1",
  tls: undefined,
  serves: "gateway",
  path: "",
  clock: systemClock,
};

/** A gateway on a real port of this machine. */
async function stage(
  options: Partial<ListenOptions> = {},
) {
  const { log, lines } = captureLog();
  const variables = { REP_PUBLIC_A: "1", REP_SENSITIVE_B: "1" };
  const gateway = await createGateway({ variables, log, hotReload: true });
  const common = { ...COMMON, port: 0, handler: gateway.fetch, log };
  const listener = listen({ ...common, ...options });
  listener.logListening();
  return {
    listener,
    lines,
    /** Sends bytes, one a character, and reads whatever comes until the other side closes. */
    send: (text: string) => send(listener.port, text),
    async [Symbol.asyncDispose]() {
      await gateway.close();
      await listener.shutdown();
    },
  };
}

/** Deno takes a client that has closed its half for one that is gone, and gives up what it asked for. */
const CLOSE = "Connection: close";

async function send(port: number, text: string) {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  try {
    const bytes = Uint8Array.from(text, (char) => char.charCodeAt(0));
    await writeAll(connection, bytes);
    if (!text.includes(CLOSE)) await connection.closeWrite(); // else the other side closes, when it has answered
    return await readAll(connection);
  } catch (error) {
    if (
      error instanceof Deno.errors.ConnectionReset ||
      error instanceof Deno.errors.BrokenPipe
    ) return ""; // closed
    throw error;
  }
}

async function writeAll(
  connection: Deno.Conn,
  bytes: Uint8Array,
) {
  for (let sent = 0; sent < bytes.length;) {
    sent += await connection.write(bytes.subarray(sent));
  }
}

async function readAll(connection: Deno.Conn) {
  const decoder = new TextDecoder("latin1");
  const buffer = new Uint8Array(16 << 10);
  let text = "";
  for (;;) {
    const read = await connection.read(buffer);
    if (read === null) return text;
    text += decoder.decode(buffer.subarray(0, read), { stream: true });
  }
}

const statusOf = (response: string) =>
  /^HTTP\/1\.[01] (\d{3}) /.exec(response)?.[1] ?? response;

/** A request with one line of its own, and what ends it. */
function request(line: string, ...headers: string[]) {
  return [line, ...headers, CLOSE, "", ""].join("\r\n");
}

/** A request for health, with these headers. */
function health(...headers: string[]) {
  return request("GET /rep/health HTTP/1.1", ...headers);
}

/** A request for something else, or with another method. */
function ask(line: string, ...headers: string[]) {
  return request(`${line} HTTP/1.1`, "Host: x", ...headers);
}

Deno.test("listen() takes a free port, says so, and serves", async () => {
  await using set = await stage();
  const { port } = set.listener;
  const response = await fetch(`http://127.0.0.1:${port}/rep/health`);
  assertEquals([response.status, (await response.json()).status], [
    200,
    "healthy",
  ]);
  const [told] = set.lines.filter(({ msg }) => msg === "rep.listening");
  assertEquals(told, {
    time: told?.time,
    level: "INFO",
    msg: "rep.listening",
    serves: "gateway",
    url: `http://127.0.0.1:${port}/`,
    port,
  });
});

Deno.test("the link of a listener is for a browser on this machine", async () => {
  const hosts = { "127.0.0.1": "127.0.0.1", "0.0.0.0": "localhost" };
  for (const [hostname, host] of Object.entries(hosts)) {
    await using set = await stage({ hostname, path: "/app" });
    const { link, port } = set.listener;
    assertEquals(link, `http://${host}:${port}/app/`);
    const response = await fetch(`http://${host}:${port}/rep/health`);
    assertEquals((await response.json()).status, "healthy");
  }
});

Deno.test("listen() listens no more after its shutdown", async () => {
  const set = await stage();
  await set[Symbol.asyncDispose]();
  await assertRejects(
    () => Deno.connect({ hostname: "127.0.0.1", port: set.listener.port }),
    Deno.errors.ConnectionRefused,
  );
  await set.listener.shutdown(); // and once more does nothing
});

Deno.test("listen() lets what is under way come to its end before the shutdown does", async () => {
  const { promise: asked, resolve: wasAsked } = Promise.withResolvers<void>();
  const { promise: answer, resolve } = Promise.withResolvers<Response>();
  await using set = await stage({
    handler: () => {
      wasAsked();
      return answer;
    },
  });
  const response = set.send(ask("GET /"));
  await asked;
  const stopped = set.listener.shutdown();
  resolve(new Response("to the end"));
  assert((await response).endsWith("to the end"));
  await stopped;
});

Deno.test("listen() rejects a port that is taken", async () => {
  await using set = await stage();
  const handler = () => Promise.resolve(new Response());
  const options = {
    ...COMMON,
    port: set.listener.port,
    handler,
    log: captureLog().log,
  };
  const { cause } = assertThrows(() => listen(options), Error);
  assertInstanceOf(cause, Deno.errors.AddrInUse);
});

Deno.test({
  name: "listen() names the permission that it needs, for IPv6 in brackets",
  permissions: { net: ["127.0.0.1:1"] },
  fn() {
    const handler = () => Promise.resolve(new Response());
    const options = { ...COMMON, port: 8080, handler, log: captureLog().log };
    const hosts = { "127.0.0.1": "127.0.0.1", "::1": "[::1]", "::": "[::]" };
    for (const [hostname, host] of Object.entries(hosts)) {
      const bind = () => listen({ ...options, hostname });
      const { message, cause } = assertThrows(bind, Error);
      assertInstanceOf(cause, Deno.errors.NotCapable);
      const expected =
        `Cannot listen on ${host}:8080: Requires net access to "${host}:8080", run again with the --allow-net flag`;
      assertEquals(message, expected);
    }
  },
});

const LARGE = "a".repeat(10_240);

/** What a client may send, by the status of the answer. */
const REQUESTS: Record<string, readonly string[]> = {
  "200": [
    health("Host: x"),
    health(), // Deno requires no Host
    health("Host: x", `A: ${LARGE}`),
    "GET /rep/health HTTP/1.0\r\n\r\n",
    ask("GET http://other.test/rep/health"),
    ask("GET /rep/../rep/health"),
    ask("GET /rep/session-key", `X-Forwarded-For: ${"1,".repeat(5_120)}`),
    request("GET /health HTTP/1.1", "Host: x/rep"), // health looks at no header
  ],
  // A Host that makes no URL, or another one.
  "400": [
    health("Host: a b<>"),
    health("Host: [::1"),
    health("Host: x:99999"),
    health("Host: x#"),
    health("Host: user:password@x"),
    health("Host: a", "Host: b"),
    request("GET / HTTP/1.1", "Host: x/rep/health?"),
    request("GET /session-key HTTP/1.1", "Host: x/rep"),
  ],
  "403": [
    ask("GET /rep/session-key", `Origin: ${LARGE}`),
    ask("GET /rep/session-key", "Origin: http://x", "Origin: http://x"),
  ],
  "404": [
    ask(`GET /rep/${LARGE}`),
    ask("GET //rep/health"), // looks like a host
    ask("OPTIONS *"),
  ],
  // Methods that the constructor of Request does not let through, and half a body.
  "405": [
    ask("TRACE /rep/health"),
    ask("TRACE /rep/session-key"),
    ask("get /rep/health"),
    ask("FOO /rep/health"),
    "POST /rep/health HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
  ],
  // Nothing, or what is broken off: the connection is closed.
  "": [
    "",
    "GE",
    "GET /rep/health",
    "GET /rep/health HTTP/1.1\r\nHost: x\r\nX-Half: ",
    "GET /rep/health HTTP/1.1\r\nHost: x\r\n",
  ],
};

/** What is no HTTP: Deno rejects it, or closes the connection. */
const NO_HTTP: readonly string[] = [
  ask("CONNECT other.test:80"),
  ask("GET /rep/hea\0lth"),
  ask("GET /rep/\xff"),
  ask("GET rep/health"),
  health("Host: x", `A: ${"a".repeat(71_680)}`),
  health(...Array(200).fill("A: 1")),
  health("Host: x", "no colon"),
  request("GET /rep/health HTTP/9.9", "Host: x"),
  ask("POST /", "Content-Length: 3", "Transfer-Encoding: chunked"),
  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", // the beginning of TLS
  "\0".repeat(100),
  "\r\n\r\n\r\n",
];

/** A rejection that nobody handles would end the test, too. */
async function assertHealthy({ send, lines }: ListenStage) {
  assertEquals(statusOf(await send(health("Host: x"))), "200");
  assertEquals(lines.filter(({ level }) => level === "ERROR"), []);
}

for (const [status, requests] of Object.entries(REQUESTS)) {
  Deno.test(`listen() responds with ${status || "nothing"} to some raw requests, and goes on`, async () => {
    await using set = await stage();
    for (const text of requests) {
      const response = await set.send(text);
      assertEquals([text, statusOf(response)], [text, status]);
      await assertHealthy(set);
    }
  });
}

Deno.test("listen() goes on after what is no HTTP", async () => {
  await using set = await stage();
  for (const text of NO_HTTP) {
    assertMatch(statusOf(await set.send(text)), /^(4..|505)?$/, text);
    await assertHealthy(set);
  }
});

Deno.test("listen() goes on when clients leave in the middle of everything", async () => {
  await using set = await stage();
  const { port } = set.listener;
  const beginnings = [
    "",
    "GET",
    health("Host: x"),
    ask("GET /rep/changes"),
  ];
  await Promise.all(Array.from({ length: 40 }, async (_, index) => {
    using connection = await Deno.connect({ hostname: "127.0.0.1", port });
    await writeAll(connection, new TextEncoder().encode(beginnings[index % 4]));
  }));
  await assertHealthy(set);
});

const TLS_FIXTURES = new URL("../../content/proxy/tls/", import.meta.url);

/** The certificate of the tests as different files: each number is another comment. */
async function certificate(renewal: number) {
  const [cert, key] = await Promise.all(
    ["localhost.crt", "localhost.key"].map((name) =>
      Deno.readTextFile(new URL(name, TLS_FIXTURES))
    ),
  );
  return {
    cert: `# ${renewal}\n${cert}`,
    key: String(key),
    certFile: "cert.pem",
    keyFile: "key.pem",
    notAfter: undefined,
  };
}

async function statusOverTls({ port }: Listener) {
  using client = Deno.createHttpClient({
    caCerts: [await Deno.readTextFile(new URL("ca.crt", TLS_FIXTURES))],
  });
  const response = await fetch(`https://localhost:${port}/rep/health`, {
    client,
  });
  await response.body?.cancel();
  return response.status;
}

/** Binds a port as soon as the listener that is being closed has freed it. */
async function takePort(port: number) {
  for (;;) {
    try {
      return Deno.listen({ hostname: "127.0.0.1", port });
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
}

Deno.test("useTls() binds the port again, however long another process has it, and takes the newest certificate", async () => {
  const other = Promise.withResolvers<Deno.Listener>();
  const pauses: number[] = [];
  const clock: Clock = {
    ...systemClock,
    after(ms, callback) { // the other process takes the port in the first pause, and no pause takes time
      pauses.push(ms);
      if (pauses.length === 1) {
        void takePort(set.listener.port).then(other.resolve);
      }
      void other.promise.then(() => setTimeout(callback));
      return () => {};
    },
  };
  await using set = await stage({ tls: await certificate(1), clock });
  const reloads = [set.listener.useTls(await certificate(2), NO_UPLOADS)];
  const listener = await other.promise;
  while (pauses.length < 100) {
    await new Promise((resolve) => setTimeout(resolve));
  }
  reloads.push(set.listener.useTls(await certificate(3), NO_UPLOADS));
  listener.close();
  assertEquals(await Promise.all(reloads), [true, true]);
  assertEquals(
    await set.listener.useTls(await certificate(3), NO_UPLOADS),
    false,
  );
  assertEquals(await statusOverTls(set.listener), 200);
  const events = set.lines.filter(({ msg }) =>
    String(msg).startsWith("rep.listen")
  ).map(({ msg }) => msg);
  assertEquals(events, [
    "rep.listening",
    "rep.listener.failed",
    "rep.listening",
  ]);
  assertEquals(Math.max(...pauses), 500);
});

/**
 * Opens connections until a process that may have 64 files has none left; it takes what the system has queued for it.
 */
async function exhaust(port: number) {
  const asked = Array.from(
    { length: 64 },
    () => Deno.connect({ hostname: "127.0.0.1", port }),
  );
  const connections = (await Promise.allSettled(asked)).filter((result) =>
    result.status === "fulfilled"
  );
  return {
    [Symbol.dispose]() {
      for (const { value } of connections) value.close();
    },
  };
}

async function next(
  lines: AsyncIterator<unknown>,
): Promise<[event: string, fields: Record<string, unknown>]> {
  const { value } = await lines.next();
  return value as [string, Record<string, unknown>];
}

Deno.test({
  name:
    "listen() listens again, on the same port, when the process ran out of file descriptors",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using process = await bareProcess(
      `
      import { listen } from "src/command/start/listen.ts";
      import { type Clock, systemClock } from "src/core/values/clock.ts";
      // Deno panics if it begins with signals when there are no descriptors; the command has begun before.
      const ignore = () => {};
      Deno.addSignalListener("SIGHUP", ignore);
      Deno.removeSignalListener("SIGHUP", ignore);
      let asked = 0;
      async function handler() {
        if (++asked === 2) setTimeout(() => listener.shutdown());
        return new Response("here");
      }
      const others = { tls: undefined, serves: "gateway", path: "", clock: systemClock, log };
      const listener = listen({ hostname: "127.0.0.1", port: 0, handler, ...others });
      listener.logListening();
      `,
      { flags: ["--allow-net"], maxFiles: 64 },
    );
    const [, { port }] = await next(process.lines);
    const url = `http://127.0.0.1:${port}/`;
    assertEquals(await (await fetch(url)).text(), "here");
    {
      using _connections = await exhaust(Number(port));
      const [event, fields] = await next(process.lines);
      assertEquals([event, fields["serves"]], [
        "rep.listener.failed",
        "gateway",
      ]);
      assertMatch(
        String(fields["detail"]),
        /^listening again: .*Too many open files/,
      );
    }
    let [event, fields] = await next(process.lines);
    while (event === "rep.listener.failed") {
      [event, fields] = await next(process.lines); // until the old ones are closed
    }
    assertEquals([event, fields], ["rep.listening", {
      serves: "gateway",
      url,
      port,
    }]);
    assertEquals(await (await fetch(url)).text(), "here");
    assertEquals((await process.child.status).code, 0);
  },
});

Deno.test("listen() logs a body that ends in an error, unless the proxy has logged it", async () => {
  const { log, lines } = captureLog();
  const errors = [new Error("truncated"), new BrokenBodyError("aborted")];
  const handler = () => {
    const error = errors.shift();
    return Promise.resolve(
      new Response(
        new ReadableStream({ pull: (controller) => controller.error(error) }),
      ),
    );
  };
  const listener = listen({ ...COMMON, port: 0, handler, log });
  for (let i = 0; i < 2; i++) {
    await assertRejects(
      async () =>
        await (await fetch(`http://127.0.0.1:${listener.port}/`)).text(),
      TypeError,
    );
  }
  await listener.shutdown();
  const failures = lines.filter(({ msg }) => msg === "rep.request.failed");
  assertEquals(failures.map(({ detail }) => String(detail).split("\n")[0]), [
    "Error: truncated",
  ]);
});
