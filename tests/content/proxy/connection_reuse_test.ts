import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { stdFlags } from "../../../tools/std.ts";
import { within } from "../../_relay.ts";
import {
  connectRaw,
  type RawConnection,
  scriptedUpstream,
  serveProxy,
} from "./_servers.ts";
import type { Step } from "./tls/requests_in_order.ts";

/** A request, as lines of its head after the first one. */
interface Asked {
  method?: string;
  headers?: string;
}

/** Sends a request in a connection of its own, and returns the status and the body. */
async function ask(
  port: number,
  { method = "GET", headers = "" }: Asked = {},
): Promise<string> {
  const head = `${method} / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n`;
  using client = await connectRaw(port, `${head}${headers}\r\n`);
  const status = await client.readStatus();
  return `${status} ${await client.read() ?? ""}`.trim();
}

/** How an upstream responds to the first request of each connection. */
interface Response {
  status?: string;
  headers?: string;
  /** Whether the body arrives after the head. */
  isStreamed?: boolean;
}

/**
 * An upstream that responds with the number of the connection, and counts the closed ones. A response to HEAD and a 304
 * have no body.
 */
function numberingUpstream(
  { status = "200 OK", headers = "", isStreamed = false }: Response,
) {
  const firstIsClosed = Promise.withResolvers<void>();
  async function respond(
    connection: RawConnection,
    index: number,
    request: string,
  ) {
    const isFirst = index === 0;
    const line = isFirst ? status : "200 OK";
    const body = `${index}`;
    const head = `HTTP/1.1 ${line}\r\nContent-Length: ${body.length}\r\n${
      isFirst ? headers : ""
    }\r\n`;
    const hasBody = !request.startsWith("HEAD") && !line.startsWith("304");
    await connection.write(hasBody && !isStreamed ? head + body : head);
    if (!hasBody || !isStreamed) return;
    await new Promise(setImmediate);
    await connection.write(body);
  }
  const upstream = scriptedUpstream(async (connection, index) => {
    for (
      let request = await connection.readHead();
      request !== undefined;
      request = await connection.readHead()
    ) await respond(connection, index, request);
    if (index === 0) firstIsClosed.resolve();
  });
  return { upstream, firstIsClosed: firstIsClosed.promise };
}

/** Asserts that the connection of a request ends with its response, or is used for the next request, without credentials. */
async function assertConnection(
  outcome: "closed" | "reused",
  first: Asked,
  response: Response,
): Promise<void> {
  const { upstream, firstIsClosed } = numberingUpstream(response);
  await using _ = upstream;
  await using gateway = serveProxy(upstream);
  await ask(gateway.port, first);
  if (outcome === "closed") await within(firstIsClosed);
  const index = outcome === "closed" ? 1 : 0;
  assertEquals(await ask(gateway.port), `200 ${index}`);
}

/** Challenges and credentials that authenticate a connection. */
const BOUND_TO_CONNECTION = [
  "NTLM",
  "NTLM TlRMTVNTUAACAAAA",
  "ntlm",
  "  NTLM",
  "Negotiate",
  "negotiate YIIg",
  "NEGOTIATE YIIg",
  "Negotiate:Kerberos",
  "Nego2 YIIg",
  "Kerberos YIIg",
  "CredSSP YIIg",
  "PKU2U YIIg",
  'Basic realm="a, b", NTLM',
  "Basic YTpi ,Negotiate YIIg",
  "Basic YTpi\r\nNAME: ntlm",
  "\r\n NTLM",
];

/** Challenges and credentials of single requests. */
const BOUND_TO_REQUEST = [
  'Basic realm="NTLM"',
  "Bearer ntlm",
  'Digest realm="Negotiate"',
  "Token NTLM",
  "",
];

function headerLines(name: string, value: string): string {
  return `${name}: ${value.replace("NAME", name)}\r\n`;
}

Deno.test("a connection is closed after a response that authenticates it, and never reused", async (t) => {
  const names = ["WWW-Authenticate", "www-authenticate", "Proxy-Authenticate"];
  for (const name of names) {
    for (const value of BOUND_TO_CONNECTION) {
      const headers = headerLines(name, value);
      await t.step(JSON.stringify(headers), async () => {
        const response = { status: "401 Unauthorized", headers };
        await assertConnection("closed", {}, response);
      });
    }
  }
});

Deno.test("a connection is closed after any response that authenticates it: without a body, streamed, to any method", async (t) => {
  const headers = "WWW-Authenticate: NTLM\r\n";
  const cases: [Asked, Response][] = [
    [{}, { status: "200 OK" }],
    [{}, { status: "304 Not Modified" }],
    [{}, { status: "403 Forbidden", isStreamed: true }],
    [{}, { status: "407 Proxy Authentication Required" }],
    [{ method: "HEAD" }, { status: "401 Unauthorized" }],
    [{ method: "OPTIONS" }, { status: "401 Unauthorized" }],
    [{ method: "POST" }, { status: "401 Unauthorized" }],
  ];
  for (const [request, response] of cases) {
    await t.step(JSON.stringify([request, response]), async () => {
      const first = { ...response, headers };
      await assertConnection("closed", request, first);
    });
  }
});

Deno.test("a connection is closed after a request that authenticates it, whatever the response", async (t) => {
  for (
    const value of BOUND_TO_CONNECTION.filter((it) => !it.startsWith("\r"))
  ) {
    const headers = headerLines("Authorization", value);
    for (const method of ["GET", "POST"]) {
      await t.step(JSON.stringify([method, headers]), async () => {
        await assertConnection("closed", { method, headers }, {});
      });
    }
  }
});

Deno.test("a connection is reused if only a request was authenticated, or none", async (t) => {
  for (const value of BOUND_TO_REQUEST) {
    const response = { headers: headerLines("WWW-Authenticate", value) };
    const request = { headers: headerLines("Authorization", value) };
    await t.step(JSON.stringify(value), async () => {
      await assertConnection("reused", {}, response);
      await assertConnection("reused", request, {});
    });
  }
});

/** An upstream like IIS: two messages of NTLM authenticate a connection, and one of Negotiate may. */
function windowsUpstream() {
  return scriptedUpstream(async (connection) => {
    let messages = 0;
    let user = "";
    for (;;) {
      const head = await connection.readHead();
      if (head === undefined) return;
      const [, scheme, message] = /^authorization: (\w+) (\w+)/im.exec(head) ??
        [];
      if (scheme === "NTLM" && message === `type${2 * messages + 1}`) {
        messages++;
      }
      if (messages === 2 || message === "kerberos") user = "alice";
      const challenge = message === "kerberos"
        ? "Negotiate mutual"
        : messages === 1
        ? "NTLM type2"
        : "Negotiate\r\nWWW-Authenticate: NTLM";
      const [line, body] = user === ""
        ? ["401 Unauthorized", "who?"]
        : ["200 OK", user];
      await connection.write(
        `HTTP/1.1 ${line}\r\nWWW-Authenticate: ${challenge}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    }
  });
}

Deno.test("no client gets the identity of another one: NTLM fails, Negotiate in one message works, with one warning", async () => {
  await using upstream = windowsUpstream();
  await using gateway = serveProxy(upstream);
  const as = (credentials: string) =>
    ask(gateway.port, { headers: `Authorization: ${credentials}\r\n` });
  assertEquals(await ask(gateway.port), "401 who?");
  assertEquals(await as("NTLM type1"), "401 who?");
  assertEquals(await as("NTLM type3"), "401 who?");
  assertEquals(await ask(gateway.port), "401 who?");
  assertEquals(await as("Negotiate kerberos"), "200 alice");
  assertEquals(await ask(gateway.port), "401 who?");
  using client = await connectRaw(
    gateway.port,
    "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Negotiate kerberos\r\n\r\n",
  );
  const head = await client.readHead() ?? "";
  assertEquals(
    head.match(/^www-authenticate: .*/gim)?.map((it) => it.trim()),
    ["www-authenticate: Negotiate mutual"],
  );
  assertEquals(gateway.warnings.map(([event]) => event), [
    "rep.upstream.no_login",
  ]);
});

Deno.test("a rejected WebSocket leaves no connection that it may have authenticated", async () => {
  await using upstream = windowsUpstream();
  await using gateway = serveProxy(upstream);
  const handshake =
    "Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  for (const message of ["type1", "type3"]) {
    using client = await connectRaw(
      gateway.port,
      `GET / HTTP/1.1\r\nHost: h\r\nAuthorization: NTLM ${message}\r\n${handshake}\r\n`,
    );
    assertEquals(await client.readStatus(), 502);
  }
  assertEquals(await ask(gateway.port), "401 who?");
});

/** The value of `Keep-Alive`, and how long the connection may then be idle, in milliseconds; 0 if it is not reused. */
const ANNOUNCEMENTS: [value: string | undefined, idleMs: number][] = [
  ["timeout=3", 2_000],
  ["timeout=3, max=100", 2_000],
  ["max=100, timeout=3", 2_000],
  ["max=100\r\nKeep-Alive: timeout=3", 2_000],
  ["TIMEOUT=3", 2_000],
  [' timeout = "3" ', 2_000],
  ["timeout=5", 4_000],
  ["timeout=20", 19_000],
  ["timeout=600", 599_000],
  ["timeout=1", 0],
  ["timeout=0", 0],
  ["max=100", 4_000],
  ["timeout=soon", 4_000],
  [undefined, 4_000],
];

Deno.test("an idle connection is closed a second before the upstream says that it does, or after 4 s", async (t) => {
  for (const [value, idleMs] of ANNOUNCEMENTS) {
    const headers = value === undefined ? "" : `Keep-Alive: ${value}\r\n`;
    await t.step(JSON.stringify(headers), async () => {
      const { upstream, firstIsClosed } = numberingUpstream({ headers });
      await using _ = upstream;
      const clock = new FakeClock();
      await using gateway = serveProxy(upstream, { clock });
      for (const _ of [1, 2, 3]) {
        assertEquals(await ask(gateway.port), "200 0");
        await clock.tick(0); // the connection becomes idle one turn after its last byte
        if (idleMs === 0) break;
        await clock.tick(idleMs - 1);
      }
      await clock.tick(1);
      assertEquals(await ask(gateway.port, { method: "POST" }), "200 1");
      await within(firstIsClosed);
    });
  }
});

/** Returns in which connections an https: upstream receives requests, if it sends a header in the first one. */
async function connectionsOverTls(header: [string, string], steps: Step[]) {
  const read = (name: string) =>
    Deno.readTextFile(new URL(`./tls/${name}`, import.meta.url));
  const [cert, key] = await Promise.all(
    [read("localhost.crt"), read("localhost.key")],
  );
  const ports: number[] = [];
  await using server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", cert, key, onListen() {} },
    (_request, { remoteAddr: { port } }) => {
      if (!ports.includes(port)) ports.push(port);
      const headers = ports.length === 1 ? [header] : [];
      return new Response(`${ports.indexOf(port)}`, { headers });
    },
  );
  const path = (name: string) =>
    new URL(`./tls/${name}`, import.meta.url).pathname;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--quiet",
      ...await stdFlags(),
      "--allow-net",
      `--cert=${path("ca.crt")}`,
      path("requests_in_order.ts"),
      `https://127.0.0.1:${server.addr.port}/`,
      JSON.stringify(steps),
    ],
  }).output();
  return new TextDecoder().decode(stdout) || new TextDecoder().decode(stderr);
}

Deno.test("connections to an https: upstream are reused and closed by the same rules", async () => {
  const none: [string, string] = ["x-one", "1"];
  const authorization = "Negotiate YIIg";
  assertEquals(await connectionsOverTls(none, [{}, {}, {}]), "0 0 0");
  assertEquals(
    await connectionsOverTls(["www-authenticate", "NTLM"], [{}, {}, {}]),
    "0 1 1",
  );
  assertEquals(
    await connectionsOverTls(none, [{}, { headers: { authorization } }, {}]),
    "0 1 0",
  );
  assertEquals(
    await connectionsOverTls(["keep-alive", "max=9, timeout=3"], [
      { passMs: 1_999 },
      { passMs: 2_000 },
      {},
    ]),
    "0 0 1",
  );
});
