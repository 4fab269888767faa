import { assertEquals } from "@std/assert";
import { OPTION_NAMES } from "../src/cli/options/option_table.ts";
import { parseCommandLine, readOptions } from "../src/cli/options/read_options.ts";
import { startCommand } from "./_command.ts";
import { TempDirectory } from "./_temp.ts";

const GUIDE = await Deno.readTextFile("docs/migrating.md");

/** Every flag of REP's Go gateway, with a value as its users write it. */
const GO_FLAGS: Readonly<Record<string, string>> = {
  "mode": "proxy",
  "upstream": "nginx",
  "port": "8080",
  "static-dir": "/usr/share/nginx/html",
  "manifest": "/etc/rep/.rep.yaml",
  "strict": "1",
  "hot-reload": "True",
  "hot-reload-mode": "file_watch",
  "watch-path": "/config",
  "env-file": ".env.local",
  "poll-interval": "1m30s",
  "log-format": "JSON",
  "log-level": "WARN",
  "allowed-origins": "https://a.com, https://B.com/",
  "tls-cert": "tls.crt",
  "tls-key": "tls.key",
  "health-port": "0",
  "session-key-ttl": "30s",
  "session-key-max-rate": "10",
};

Deno.test("docs/migrating.md has a row for every flag of the Go gateway", () => {
  const rows = [...GUIDE.matchAll(/^\| `--([a-z-]+)`/gm)].map(([, name]) => name);
  assertEquals(rows, [...Object.keys(GO_FLAGS), "version"]);
  assertEquals(Object.keys(GO_FLAGS).filter((name) => !OPTION_NAMES.some((option) => option === name)), []);
});

for (const [style, toFlag] of Object.entries({ "one dash": "-", "two dashes": "--" })) {
  Deno.test(`all flags of the Go gateway are accepted with ${style}, and in the environment`, () => {
    const args = Object.entries(GO_FLAGS).map(([name, value]) => `${toFlag}${name}=${value}`);
    const fromFlags = readOptions({ flags: parseCommandLine(args).flags, environment: {}, manifest: {} });
    const variables = Object.entries(GO_FLAGS).map(([name, value]) => [
      `REP_GATEWAY_${name.toUpperCase().replaceAll("-", "_")}`,
      value,
    ]);
    const environment = Object.fromEntries(variables);
    assertEquals(readOptions({ flags: new Map(), environment, manifest: {} }), fromFlags);
  });
}

Deno.test("a deployment of the Go gateway starts without changes, and says which proxy to trust", async () => {
  await using project = await TempDirectory.make({
    "index.html": "<head></head>",
    "rep.yaml": `version: "0.1.0"
variables:
  RETRIES:
    tier: public
    type: number
    default: 10
    description:
  NAME:
    tier: public
    pattern: (?i)\\A[[:alpha:]]+\\z
settings:
  strict_guardrails: True
  allowed_origins:
    - "https://App.example.com/"
`,
  });
  const flags = ["-mode", "embedded", "-static-dir", project.path, "-manifest", project.at("rep.yaml")];
  const go = ["-health-port", "0", "-log-level", "INFO", "-hot-reload=1", "-allowed-origins", ""];
  const environment = { REP_PUBLIC_NAME: "Abc", REP_GATEWAY_LOG_FORMAT: "JSON", REP_GATEWAY_STRICT: "0" };
  await using command = await startCommand([...flags, ...go, "-kv", ":memory:"], environment);
  const page = await fetch(command.url, { headers: { "x-forwarded-for": "203.0.113.9" } });
  const html = await page.text();
  assertEquals(JSON.parse(/<script id="__rep__"[^>]*>([^<]*)</.exec(html)?.[1] ?? "null").public, {
    NAME: "Abc",
    RETRIES: "10",
  });
  const { status } = await (await fetch(`${command.url}/rep/health`)).json();
  assertEquals(status, "healthy");
  assertEquals((await command.logged(({ msg }) => msg === "rep.proxy.untrusted")).peer, "127.0.0.1");
});
