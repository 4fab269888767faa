import { assertEquals } from "@std/assert";
import { forwardProxyWarning } from "../../../src/content/proxy/forward_proxy.ts";
import { startCommand } from "../../_command.ts";
import { serveLocally } from "../../_serve.ts";

type Variables = Record<string, string>;

/** An upstream, variables, and the `NO_PROXY` that the warning asks for; `undefined` if there is none. */
type Case = [upstream: string, variables: Variables, noProxy?: string];

const TO_PROXY = "http://127.0.0.1:1";

const VARIABLES: Case[] = [
  ["http://localhost", {}],
  ["http://localhost", { HTTP_PROXY: TO_PROXY }, "localhost"],
  ["http://localhost", { http_proxy: TO_PROXY }, "localhost"],
  ["http://localhost", { ALL_PROXY: TO_PROXY }, "localhost"],
  ["http://localhost", { all_proxy: TO_PROXY }, "localhost"],
  ["http://localhost", { HTTP_PROXY: "", http_proxy: TO_PROXY }, "localhost"],
  ["http://localhost", { HTTPS_PROXY: TO_PROXY, https_proxy: TO_PROXY }],
  ["http://localhost", { HTTP_PROXY: "" }],
];

const EXEMPTIONS: Case[] = [
  ["http://localhost", { NO_PROXY: "" }, "localhost"],
  ["http://localhost", { NO_PROXY: "localhost" }],
  ["http://localhost", { no_proxy: "localhost" }],
  ["http://localhost", { NO_PROXY: "a.example, localhost" }],
  ["http://localhost", { NO_PROXY: ".localhost" }],
  ["http://localhost", { NO_PROXY: "*" }],
  ["http://localhost", { NO_PROXY: "", no_proxy: "localhost" }, "localhost"],
  ["http://localhost", { NO_PROXY: "host,x" }, "host,x,localhost"],
  ["http://localhost", { NO_PROXY: "LOCALHOST" }, "LOCALHOST,localhost"],
  ["http://localhost", { NO_PROXY: "127.0.0.1" }, "127.0.0.1,localhost"],
  ["http://127.0.0.1", { NO_PROXY: "127.0.0.1" }],
  ["http://127.0.0.1", { NO_PROXY: "10.0.0.0/8,127.0.0.0/8" }],
  ["http://127.0.0.1", { NO_PROXY: "*" }, "*,127.0.0.1"],
  ["http://127.0.0.1", { NO_PROXY: "localhost" }, "localhost,127.0.0.1"],
  ["http://127.0.0.1", { NO_PROXY: "10.0.0.0/8" }, "10.0.0.0/8,127.0.0.1"],
];

const CASES: Case[] = [
  ...VARIABLES,
  ...EXEMPTIONS.map(([url, exempt, noProxy]): Case => [
    url,
    { HTTP_PROXY: TO_PROXY, ...exempt },
    ...(noProxy === undefined ? [] : [noProxy]) as [string?],
  ]),
];

function warningFor([upstream, variables]: Case): string | undefined {
  return forwardProxyWarning(new URL(upstream), (name) => variables[name]);
}

Deno.test("forwardProxyWarning() names the variable, and the NO_PROXY to set", () => {
  for (const row of CASES) {
    const [, , noProxy] = row;
    assertEquals(
      warningFor(row)?.split("expected ")[1],
      noProxy === undefined ? undefined : `NO_PROXY=${noProxy}`,
      JSON.stringify(row),
    );
  }
  const https: Case = ["https://[::1]:8443/a", { https_proxy: TO_PROXY }];
  assertEquals(
    warningFor(https),
    "https_proxy sends WebSockets to a proxy, but requests go to the upstream directly: expected NO_PROXY=::1",
  );
  assertEquals(
    warningFor([https[0], { ...https[1], NO_PROXY: "::/64" }]),
    undefined,
  );
  for (const exempt of ["example.com", ".example.com", "a.example.com"]) {
    const variables = { HTTPS_PROXY: TO_PROXY, NO_PROXY: exempt };
    assertEquals(warningFor(["https://a.example.com", variables]), undefined);
  }
});

/** Opens a WebSocket, and prints whether it could: no, if it goes to the proxy, where nothing listens. */
const SCRIPT = `
const socket = new WebSocket(Deno.args[0]);
socket.onopen = () => { console.log("direct"); Deno.exit(); };
socket.onerror = () => { console.log("proxy"); Deno.exit(); };
`;

Deno.test("forwardProxyWarning() warns in the cases in which Deno's WebSocket goes to the proxy, and in no other", async () => {
  await using upstream = serveLocally((request) => {
    return Deno.upgradeWebSocket(request).response;
  });
  const outcomeOf = async ([url, variables]: Case) => {
    const socket = `${url.replace("http", "ws")}:${upstream.port}`;
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["eval", SCRIPT, socket],
      env: { PATH: "", ...variables },
      clearEnv: true,
    }).output();
    return new TextDecoder().decode(stdout).trim();
  };
  for (const row of CASES) {
    const expected = warningFor(row) === undefined ? "direct" : "proxy";
    assertEquals(await outcomeOf(row), expected, JSON.stringify(row));
  }
});

Deno.test("a start with an upstream warns of a forward proxy, unless WebSockets are rejected", async () => {
  await using upstream = serveLocally(() => new Response("ok"));
  const environment = {
    REP_GATEWAY_KV: ":memory:",
    REP_GATEWAY_UPSTREAM: upstream.url,
    HTTP_PROXY: TO_PROXY,
  };
  const warningsWith = async (args: string[]) => {
    await using command = await startCommand(args, environment);
    command.signal("SIGTERM");
    await command.ended();
    const lines = command.output.filter((it) => it.includes("start.warning"));
    return lines.map((line) => JSON.parse(line).detail);
  };
  assertEquals(await warningsWith([]), [
    "HTTP_PROXY sends WebSockets to a proxy, but requests go to the upstream directly: expected NO_PROXY=127.0.0.1",
  ]);
  assertEquals(await warningsWith(["--reject-websockets"]), []);
});
