/** The example for Next.js, in a server that treats requests as Next.js does. */
import { assertEquals, assertMatch } from "@std/assert";
import { stdFlags } from "../tools/std.ts";
import { runDeno } from "./_command.ts";
import { TempDirectory } from "./_temp.ts";

const SOURCES = "examples/frameworks/next/src";

/** Requests a session key 12 times, each time for another forwarded address, and prints how often it got one. */
const PROGRAM = `
import { createServer } from "node:http";
import { getGateway } from "./gateway";
import { register } from "./instrumentation";
import { GET } from "./app/rep/[...path]/route";

process.chdir(import.meta.dirname);
process.env.NEXT_RUNTIME = "nodejs";
await register();
const server = createServer(async (request, response) => {
  request.headers["x-forwarded-for"] ??= request.socket.remoteAddress;
  const { headers, url } = request;
  const answer = await GET(new Request("http://localhost" + url, { headers }));
  response.writeHead(answer.status).end(await answer.text());
});
server.listen(0, "127.0.0.1", async () => {
  const script = await (await getGateway()).configScript();
  const [, path] = /"key_endpoint":"([^"]+)"/.exec(script);
  let keys = 0;
  for (let i = 1; i <= 12; i++) {
    const headers = { "x-forwarded-for": "192.0.2." + i, "x-peer-address": "192.0.2." + i };
    const response = await fetch("http://127.0.0.1:" + server.address().port + path, { headers });
    await response.text();
    if (response.ok) keys++;
  }
  console.log("keys: " + keys);
  process.exit();
});
`;

/** Reads the file that starts the gateway, with the modules of this checkout. */
async function readGateway(): Promise<string> {
  const text = await Deno.readTextFile(`${SOURCES}/gateway.ts`);
  const url = (path: string) => JSON.stringify(import.meta.resolve(path));
  return text.replace('"@rep/gateway"', url("../main.ts"))
    .replace('"@rep/gateway/sources"', url("../src/sources.ts"));
}

async function runExample(edit: (gateway: string) => string) {
  const files = ["instrumentation.ts", "app/rep/[...path]/route.ts"];
  await using app = await TempDirectory.make({
    "app.env": "REP_SENSITIVE_A=1\n",
    "main.ts": PROGRAM,
    "gateway.ts": edit(await readGateway()),
  });
  await Deno.mkdir(app.at("app/rep/[...path]"), { recursive: true });
  for (const file of files) {
    await Deno.copyFile(`${SOURCES}/${file}`, app.at(file));
  }
  return await runDeno([
    "run",
    ...await stdFlags(),
    "--config=deno.json",
    "--no-check",
    "--unstable-sloppy-imports",
    "-A",
    "--quiet",
    app.at("main.ts"),
  ]);
}

/** Returns how many of 12 requests got a key; 10 if all count as those of one client. */
async function countKeys(edit: (gateway: string) => string): Promise<string> {
  const { stdout, stderr } = await runExample(edit);
  return /keys: (\d+)/.exec(stdout)?.[1] ?? stdout + stderr;
}

Deno.test("examples/frameworks/next: a server that lacks a file ends with one line, instead of answering 500", async () => {
  const { code, stdout, stderr } = await runExample((gateway) =>
    gateway.replace('{ path: "app.env", required: false }', '"lost.env"')
  );
  assertEquals([code, stdout], [1, ""]);
  assertMatch(
    stderr,
    /^Cannot read envFile ".*lost.env": .*required: false.*\n$/,
  );
});

Deno.test("examples/frameworks/next: only the X-Forwarded-For of a trusted proxy is believed", async () => {
  assertEquals(await countKeys((gateway) => gateway), "10");
  const trusting = (gateway: string) =>
    gateway.replace("trustedProxies: []", 'trustedProxies: ["127.0.0.1"]');
  assertEquals(await countKeys(trusting), "12");
});
