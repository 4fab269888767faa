import { assertEquals } from "@std/assert";
import { type Clock, systemClock } from "../src/values/clock.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { TempDirectory } from "./_temp.ts";
import { findFreePort } from "../tools/free_port.ts";

/** A program for which `examples/proxies` has a configuration. */
interface ProxyProgram {
  name: string;
  /** The configuration, in `examples/proxies`. */
  config: string;
  /** What is replaced in it, each of which must be in the file. */
  replacements: (values: TestValues) => [from: string, to: string][];
  args: (path: string, directory: string) => string[];
}

interface TestValues {
  directory: string;
  /** Where the proxy listens. */
  port: number;
  /** Where the gateway listens. */
  gatewayPort: number;
}

/** Ten times faster than the real one: a heartbeat after 1.2 to 1.5 s. */
const FAST_CLOCK: Clock = {
  now: () => systemClock.now() * 10,
  monotonic: () => systemClock.monotonic() * 10,
  after: (ms, callback, options) => systemClock.after(ms / 10, callback, options),
};

const HEARTBEAT_MS = 1_200;

/** The proxies' limits, shortened: the time for a head, and the time without a byte, which is more than a heartbeat. */
const [HEAD_S, IDLE_S] = [1, 3];

const PROXIES: readonly ProxyProgram[] = [
  {
    name: "nginx",
    config: "nginx.conf",
    replacements: ({ directory, port, gatewayPort }) => [
      ["http {", `http { access_log off; ${temporaryPaths(directory)}`],
      ["listen 443", `listen 127.0.0.1:${port}`],
      ["127.0.0.1:8080", `127.0.0.1:${gatewayPort}`],
      ["/etc/ssl/gateway.crt", `${directory}/gateway.crt`],
      ["/etc/ssl/gateway.key", `${directory}/gateway.key`],
      ["client_header_timeout 10s", `client_header_timeout ${HEAD_S}s`],
      ["send_timeout 60s", `send_timeout ${IDLE_S}s`],
      ["keepalive_timeout 60s", `keepalive_timeout ${IDLE_S}s`],
      ["proxy_read_timeout 60s", `proxy_read_timeout ${IDLE_S}s`],
    ],
    args: (path, directory) => ["-e", "stderr", "-c", path, "-g", `daemon off; pid ${directory}/nginx.pid;`],
  },
  {
    name: "haproxy",
    config: "haproxy.cfg",
    replacements: ({ directory, port, gatewayPort }) => [
      ["maxconn 8000", "maxconn 200"], // each takes two file descriptors
      ["bind :443", `bind 127.0.0.1:${port}`],
      ["127.0.0.1:8080", `127.0.0.1:${gatewayPort}`],
      ["/etc/ssl/gateway.pem", `${directory}/gateway.pem`],
      ["timeout http-request 10s", `timeout http-request ${HEAD_S}s`],
      ["timeout http-keep-alive 60s", `timeout http-keep-alive ${IDLE_S}s`],
      ["timeout client 60s", `timeout client ${IDLE_S}s`],
      ["timeout server 60s", `timeout server ${IDLE_S}s`],
    ],
    args: (path) => ["-db", "-f", path],
  },
  {
    name: "caddy",
    config: "Caddyfile",
    replacements: ({ directory, port, gatewayPort }) => [
      ["{\n\tservers", "{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n\tservers"],
      ["https://localhost:443", `https://localhost:${port}`],
      ["127.0.0.1:8080", `127.0.0.1:${gatewayPort}`],
      ["/etc/ssl/gateway.crt", `${directory}/gateway.crt`],
      ["/etc/ssl/gateway.key", `${directory}/gateway.key`],
      ["read_header 10s", `read_header ${HEAD_S}s`],
      ["idle 60s", `idle ${IDLE_S}s`],
    ],
    args: (path) => ["run", "--config", path, "--adapter", "caddyfile"],
  },
];

/** The folders that nginx would have below `/var`. */
function temporaryPaths(directory: string): string {
  const names = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return names.map((name) => `${name}_temp_path ${directory}/${name};`).join(" ");
}

const TLS = new URL("./content/proxy/tls/", import.meta.url);

/** A gateway behind a proxy. */
interface ProxiedGateway extends TestGateway {
  port: number;
  /** The origin of the proxy. */
  url: string;
  /** A client with another address than the proxy. */
  client: Deno.HttpClient;
}

async function startProxied(program: ProxyProgram, path: string): Promise<ProxiedGateway> {
  const directory = await TempDirectory.make();
  const variables = { REP_PUBLIC_A: "1", REP_SENSITIVE_B: "2" };
  const gate = await setUp(variables, { trustedProxies: ["127.0.0.1"], clock: FAST_CLOCK });
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, gate.gateway.fetch);
  const port = findFreePort();
  const config = await writeConfig(program, { directory: directory.path, port, gatewayPort: server.addr.port });
  const args = program.args(config, directory.path);
  const env = { XDG_DATA_HOME: directory.path, XDG_CONFIG_HOME: directory.path };
  const options = { args, env, stdin: "null", stdout: "null", stderr: "piped" } as const;
  const child = new Deno.Command(path, options).spawn();
  const output = new Response(child.stderr).text();
  let hasEnded = false;
  const ended = child.status.then(() => hasEnded = true);
  const ca = await Deno.readTextFile(new URL("ca.crt", TLS));
  const client = Deno.createHttpClient({ caCerts: [ca], http1: false, localAddress: "127.0.0.2" });
  const close = async () => {
    client.close();
    if (!hasEnded) child.kill("SIGTERM"); // with SIGKILL, nginx's workers would go on
    await output;
    await ended;
    await gate.gateway.close();
    await server.shutdown();
    await directory[Symbol.asyncDispose]();
  };
  if (!await answers(port, () => hasEnded)) {
    await close();
    throw new Error(`${program.name} does not listen:\n${await output}`);
  }
  const url = `https://localhost:${port}`;
  return { ...gate, port, url, client, [Symbol.asyncDispose]: close };
}

async function writeConfig(program: ProxyProgram, values: TestValues): Promise<string> {
  let text = await Deno.readTextFile(new URL(`../examples/proxies/${program.config}`, import.meta.url));
  for (const [from, to] of program.replacements(values)) {
    if (!text.includes(from)) throw new Error(`${program.config} does not contain "${from}"`);
    text = text.replaceAll(from, to);
  }
  const [cert, key] = await Promise.all(
    ["localhost.crt", "localhost.key"].map((name) => Deno.readTextFile(new URL(name, TLS))),
  );
  const files = { "gateway.crt": cert, "gateway.key": key, "gateway.pem": `${cert}${key}`, [program.config]: text };
  for (const [name, content] of Object.entries(files)) {
    await Deno.writeTextFile(`${values.directory}/${name}`, content!);
  }
  return `${values.directory}/${program.config}`;
}

/** Waits until a port accepts connections: for 10 s at most, and while the proxy runs. */
async function answers(port: number, hasEnded: () => boolean): Promise<boolean> {
  for (let tries = 0; tries < 200 && !hasEnded(); tries++) {
    try {
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      return true;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  return false;
}

/** Where an installed program is; Debian has those of servers in `sbin`, which is not in every PATH. */
async function findProgram(name: string): Promise<string | undefined> {
  for (const folder of [...(Deno.env.get("PATH") ?? "").split(":"), "/usr/sbin", "/usr/local/sbin"]) {
    const { isFile } = await Deno.stat(`${folder}/${name}`).catch(() => ({ isFile: false }));
    if (isFile) return `${folder}/${name}`;
  }
  return undefined;
}

/** Reads a stream's text until something is in it. */
async function readUntil(
  reader: ReadableStreamDefaultReader<string>,
  isEnough: (text: string) => boolean,
): Promise<void> {
  for (let text = ""; !isEnough(text);) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`The stream ended after:\n${text}`);
    text += value;
  }
}

function textOf(response: Response): ReadableStreamDefaultReader<string> {
  return response.body!.pipeThrough(new TextDecoderStream()).getReader();
}

/**
 * Returns after how many milliseconds the proxy closes a connection, of which it does not answer more than an error.
 */
async function closedAfter(connection: Deno.Conn): Promise<number> {
  const start = performance.now();
  const buffer = new Uint8Array(1024);
  while (await connection.read(buffer).catch(() => null) !== null);
  connection.close();
  return performance.now() - start;
}

async function testStream({ client, url, set }: ProxiedGateway): Promise<void> {
  const headers = { "accept": "text/event-stream", "accept-encoding": "gzip" };
  const response = await fetch(`${url}/rep/changes`, { client, headers });
  assertEquals([response.status, response.headers.get("content-encoding")], [200, null]);
  const reader = textOf(response);
  await readUntil(reader, (text) => text.includes(": connected"));
  for (const value of ["2", "3", "4"]) {
    const start = performance.now();
    await set({ REP_PUBLIC_A: value, REP_SENSITIVE_B: "2" });
    await readUntil(reader, (text) => text.includes(`"value":"${value}"`));
    const ms = performance.now() - start;
    assertEquals(ms < HEARTBEAT_MS, true, `the event took ${ms} ms`); // a proxy that buffers waits for more bytes
  }
  const start = performance.now();
  while (performance.now() - start < 2 * IDLE_S * 1000) await readUntil(reader, (text) => text.includes(":"));
  await reader.cancel();
}

async function testClientAddress({ client, url, lines }: ProxiedGateway): Promise<void> {
  const headers = { "origin": url, "x-forwarded-for": "203.0.113.9", "x-forwarded-host": "evil.example" };
  const response = await fetch(`${url}/rep/session-key`, { client, headers });
  await response.body?.cancel();
  assertEquals(response.status, 200); // so the proxy has told scheme and host
  const issued = lines.findLast(({ msg }) => msg === "rep.session_key.issued");
  assertEquals([issued?.client_ip, issued?.origin], ["127.0.0.2", url]);
}

async function testTimeouts({ port }: ProxiedGateway): Promise<void> {
  const ca = await Deno.readTextFile(new URL("ca.crt", TLS));
  const open = () => Deno.connectTls({ hostname: "localhost", port, caCerts: [ca], alpnProtocols: ["http/1.1"] });
  const [noHandshake, silent, halfHead] = [
    await Deno.connect({ hostname: "127.0.0.1", port }),
    await open(),
    await open(),
  ];
  await silent.handshake();
  await halfHead.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: localhost\r\nX-Half:"));
  const times = await Promise.all([noHandshake, silent, halfHead].map(closedAfter));
  assertEquals(times.every((ms) => ms < (IDLE_S + 2) * 1000), true, `closed after ${times.join(", ")} ms`);
}

for (const program of PROXIES) {
  const path = await findProgram(program.name);
  const name =
    `${program.name} passes events on at once, keeps streams, names the client and closes silent connections`;
  Deno.test({
    name: path === undefined ? `${name} (${program.name} is not installed)` : name,
    ignore: path === undefined,
    async fn(context) {
      await using proxied = await startProxied(program, path!);
      await context.step("the audit log has the client's address", () => testClientAddress(proxied));
      await context.step(
        "events arrive at once, and a stream survives the idle timeout, over HTTP/2, while connections without a request are closed",
        async () => {
          await Promise.all([testStream(proxied), testTimeouts(proxied)]);
        },
      );
    },
  });
}
