/** `@rep/gateway/server` in the process of a server, on Node.js: which connection a request has, and what signals do. */
import { assertEquals } from "@std/assert";
import { TextLineStream } from "../tools/text_lines.ts";
import { npmPackage } from "./_npm_package.ts";
import { pathOf, testRuntimes } from "./_runtimes.ts";
import { TempDirectory } from "./_temp.ts";

/** Sends many requests from eight addresses, some in one connection without waiting, and prints whose address is wrong. */
const ADDRESSES = `import { connectionInfo } from "./package/server.js";
import { Agent, createServer, request } from "node:http";
import { connect } from "node:net";

connectionInfo(); // listens from now on
const address = () => connectionInfo()?.remoteAddr.hostname;
const server = createServer(async (request, response) => {
  const { remoteAddress } = request.socket;
  const early = address();
  let size = 0;
  for await (const chunk of request) size += chunk.length;
  await new Promise(setImmediate);
  response.end(JSON.stringify([remoteAddress, early, address()]));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const { port } = server.address();
const clients = Array.from({ length: 8 }, (_, index) => ({
  localAddress: "127.0.0." + (index + 1),
  agent: new Agent({ keepAlive: true, maxSockets: 2 }),
}));
const answers = [];

function ask(client, method) {
  const headers = { "x-forwarded-for": "203.0.113.9" };
  return new Promise((resolve) => {
    const asked = request({ port, host: "127.0.0.1", method, headers, ...client }, async (response) => {
      answers.push([client.localAddress, ...await new Response(response).json()]);
      resolve();
    });
    asked.end(method === "POST" ? "a".repeat(100_000) : undefined);
  });
}

function pipeline({ localAddress }) {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect({ port, host: "127.0.0.1", localAddress });
    socket.on("data", (data) => {
      text += data;
      const found = text.match(/\\[.*?\\]/g) ?? [];
      if (found.length < 10) return;
      for (const answer of found) answers.push([localAddress, ...JSON.parse(answer)]);
      socket.destroy();
      resolve();
    });
    socket.write("GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n".repeat(10));
  });
}

const waits = [];
for (let round = 0; round < 10; round++) {
  for (const client of clients) waits.push(ask(client, round % 2 ? "GET" : "POST"));
}
waits.push(...clients.map(pipeline));
await Promise.all(waits);
const wrong = answers.filter((answer) => new Set(answer).size !== 1);
console.log(JSON.stringify({ answers: answers.length, wrong, outside: address() }));
process.exit();
`;

/** A server as frameworks have it. With "waits", it has its own listener, which waits until all responses have ended. */
const SERVER = `import { respond } from "./package/server.js";
import { createServer } from "node:http";
import { Readable } from "node:stream";

const log = { debug() {}, info() {}, warn() {}, error() {} };
const server = createServer(async (request, response) => {
  const page = () => new Response("");
  const answer = await respond(new Request("http://127.0.0.1" + request.url), page, { log });
  response.shouldKeepAlive = false; // Node.js would wait for a connection that is not used
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  Readable.fromWeb(answer.body).on("error", () => response.end()).pipe(response);
});
if (process.argv[2] === "waits") {
  for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => server.close(() => process.exit(3)));
}
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
`;

/** Longer than any end takes that is not stuck. */
const STUCK_MS = 10_000;

/** Makes a folder with a program, and the package. */
async function makeFolder(program: string): Promise<TempDirectory> {
  const folder = await TempDirectory.make({ "main.mjs": program });
  await Deno.symlink((await npmPackage()).folder, folder.at("package"));
  return folder;
}

function start(folder: TempDirectory, ...args: string[]): Deno.ChildProcess {
  const command = new Deno.Command(pathOf("Node 24"), {
    args,
    cwd: folder.path,
    stdin: "null",
    stdout: "piped",
  });
  return command.spawn();
}

testRuntimes(
  "connectionInfo() on Node.js has the address of each request's own connection, also if many share few connections",
  async () => {
    await using folder = await makeFolder(ADDRESSES);
    const { stdout } = await start(folder, "main.mjs").output();
    const printed = JSON.parse(new TextDecoder().decode(stdout));
    assertEquals(printed, { answers: 160, wrong: [] });
  },
);

/** Answers over a Unix socket, whose peers have no address. */
const UNIX = `import { connectionInfo } from "./package/server.js";
import { createServer, request } from "node:http";

connectionInfo(); // listens from now on
const server = createServer((_request, response) => response.end(JSON.stringify({ info: connectionInfo() })));
server.listen("socket", () => request({ socketPath: "socket" }, async (response) => {
  console.log(await new Response(response).text());
  process.exit();
}).end());
`;

testRuntimes(
  "connectionInfo() is undefined for a connection without an address",
  async () => {
    await using folder = await makeFolder(UNIX);
    const { stdout } = await start(folder, "main.mjs").output();
    assertEquals(new TextDecoder().decode(stdout), "{}\n");
  },
);

testRuntimes(
  "a server with respond() ends with SIGTERM and SIGINT while a page is open, whether or not it listens to them itself",
  async () => {
    await using folder = await makeFolder(SERVER);
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      for (const kind of ["waits", "alone"]) {
        const child = start(folder, "main.mjs", kind);
        const lines = child.stdout.pipeThrough(new TextDecoderStream())
          .pipeThrough(new TextLineStream()).getReader();
        const { value: port } = await lines.read();
        const page = await fetch(`http://127.0.0.1:${port}/rep/changes`);
        const isRead = page.text().catch(() => ""); // until the stream ends
        const timer = setTimeout(() => child.kill("SIGKILL"), STUCK_MS);
        child.kill(signal);
        const status = await child.status;
        clearTimeout(timer);
        await isRead;
        await lines.cancel();
        const ended = kind === "waits" ? status.code : status.signal;
        assertEquals([kind, ended], [kind, kind === "waits" ? 3 : signal]);
      }
    }
  },
);
