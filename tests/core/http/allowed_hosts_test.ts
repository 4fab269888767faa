import { assertEquals } from "@std/assert";
import type { GatewayOptions } from "../../../src/options.ts";
import {
  hostRule,
  isHostPattern,
} from "../../../src/core/http/allowed_hosts.ts";
import { answerOf } from "../../_answer.ts";
import { setUp, type TestGateway } from "../../_gateway.ts";
import { TempDirectory } from "../../_temp.ts";

/** Patterns, with origins that they allow and origins that they do not. */
const CASES: [pattern: string, allowed: string[], rejected: string[]][] = [
  ["app.example.com", [
    "http://app.example.com",
    "https://app.example.com",
    "http://app.example.com:8080",
    "http://APP.Example.com",
    "http://app.example.com.", // the same host (RFC 1034 §3.1)
    "https://App.example.com.:8443",
  ], [
    "http://evil.example",
    "http://example.com",
    "http://x.app.example.com",
    "http://app.example.com.evil.example",
    "http://xapp.example.com",
    "http://app.example.com..",
    "http://127.0.0.1",
  ]],
  ["App.EXAMPLE.com", ["http://app.example.com"], ["http://example.com"]],
  ["app.example.com.", [
    "http://app.example.com",
    "http://app.example.com.:8080",
  ], ["http://example.com."]],
  ["app.example.com:8080", [
    "http://app.example.com:8080",
    "https://app.example.com:8080",
    "http://app.example.com.:8080",
  ], [
    "http://app.example.com",
    "http://app.example.com:80",
    "http://app.example.com:18080",
  ]],
  ["app.example.com:443", [
    "https://app.example.com",
    "https://app.example.com:443",
    "http://app.example.com:443",
  ], [
    "http://app.example.com",
    "https://app.example.com:80",
  ]],
  ["app.example.com:80", ["http://app.example.com"], [
    "https://app.example.com",
  ]],
  ["*.example.com", [
    "http://a.example.com",
    "http://a.b.example.com:99",
    "http://A.Example.COM",
    "http://a.example.com.",
  ], [
    "http://example.com",
    "http://aexample.com",
    "http://a.example.com.evil.example",
    "http://.example.com",
    "http://example.com.",
  ]],
  ["*.example.com:8080", ["http://a.example.com:8080"], [
    "http://a.example.com",
    "http://example.com:8080",
  ]],
  ["localhost", ["http://localhost:8080", "http://localhost."], [
    "http://a.localhost",
    "http://127.0.0.1",
  ]],
  [
    "127.0.0.1",
    ["http://127.0.0.1:8080", "http://0x7f.1", "http://127.0.0.1."],
    [
      "http://127.0.0.2",
    ],
  ],
  ["[::1]", ["http://[::1]:8080", "http://[0:0::1]"], ["http://[::2]"]],
  ["[::1]:8080", ["http://[::1]:8080"], ["http://[::1]"]],
  [
    "bücher.example",
    ["http://xn--bcher-kva.example", "http://bücher.example"],
    ["http://bucher.example"],
  ],
];

for (const [pattern, allowed, rejected] of CASES) {
  Deno.test(`hostRule() allows what matches ${pattern}, and nothing else`, () => {
    assertEquals(isHostPattern(pattern), true);
    const isAllowed = hostRule([pattern]);
    assertEquals([...allowed, ...rejected].filter(isAllowed), allowed);
    assertEquals(rejected.filter(hostRule(["other.example", pattern])), []);
  });
}

Deno.test("hostRule() allows any host without a pattern", () => {
  assertEquals(["http://evil.example", "http://[::1]:8080"].map(hostRule([])), [
    true,
    true,
  ]);
});

Deno.test("isHostPattern() rejects what is not a host", () => {
  const wildcards =
    "* *. **.example.com a.*.example.com *example.com *.*.example.com *.127.0.0.1 *.[::1]";
  const parts =
    "http://app.example.com app.example.com/ user@app.example.com a%2eb a\\b a?b a#b";
  const addresses =
    "app.example.com: app.example.com:x app.example.com:65536 :8080 ::1 [::1 [::x] 1.2.3.256";
  const texts = [wildcards, parts, addresses];
  const invalid = ["", "a b", ...texts.flatMap((text) => text.split(" "))];
  assertEquals(invalid.filter(isHostPattern), []);
});

const VARIABLES = { REP_PUBLIC_A: "1", REP_SENSITIVE_S: "secret" };

async function setUpSite(options: GatewayOptions) {
  const directory = await TempDirectory.make({
    "index.html": "<head></head>",
    "app.js": "1",
  });
  const gate = await setUp(VARIABLES, {
    staticDir: directory.path,
    ...options,
  });
  return {
    ...gate,
    async [Symbol.asyncDispose]() {
      await gate.gateway.close();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** Requests a URL from a peer, and returns the status. */
async function statusOf(
  { gateway }: TestGateway,
  url: string,
  headers: HeadersInit = {},
  hostname = "192.0.2.1",
) {
  const info = {
    remoteAddr: { transport: "tcp", hostname, port: 50_000 },
  } as const;
  const response = await gateway.fetch(new Request(url, { headers }), info);
  await response.body?.cancel();
  return response.status;
}

const PATHS = [
  "/",
  "/app.js",
  "/route",
  "/rep/session-key",
  "/rep/changes",
  "/rep/client.js",
  "/rep/other",
];

for (const basePath of ["", "/app"]) {
  Deno.test(`allowedHosts: requests for another host are rejected with 421, except for health, below "${basePath}/"`, async () => {
    const allowedHosts = ["app.example.com"];
    await using gate = await setUpSite({ allowedHosts, basePath });
    const statuses = (origin: string, paths: string[]) =>
      Promise.all(paths.map((path) => statusOf(gate, origin + path)));
    const paths = PATHS.map((path) => basePath + path);
    const [evil, app] = ["http://evil.example", "http://app.example.com:8080"];
    assertEquals(await statuses(evil, paths), paths.map(() => 421));
    const found = [...Array(6).fill(200), 404];
    assertEquals(await statuses(app, paths), found);
    assertEquals(await statuses(evil, [`${basePath}/rep/health`]), [200]);
    const health = await gate.gateway.fetchHealth(
      new Request("http://10.1.2.3:8081/rep/health"),
    );
    assertEquals((await answerOf(health)).status, 200);
  });
}

Deno.test("allowedHosts: the rejection names the host, and nothing of the configuration", async () => {
  await using gate = await setUpSite({
    allowedHosts: ["internal.example.com"],
  });
  const response = await gate.gateway.fetch(
    new Request("http://evil.example:8080/"),
  );
  assertEquals(await answerOf(response), {
    status: 421,
    headers: {
      "content-type": "application/problem+json",
      "cache-control": "no-store",
    },
    body: {
      title: "Misdirected Request",
      status: 421,
      detail:
        'Cannot serve the host "evil.example:8080": expected one of the allowed hosts',
    },
  });
});

Deno.test("allowedHosts: gateway.handle() rejects other hosts as well", async () => {
  await using gate = await setUpSite({ allowedHosts: ["app.example.com"] });
  const handle = (url: string) => gate.gateway.handle(new Request(url));
  assertEquals(
    (await handle("http://evil.example/rep/session-key"))?.status,
    421,
  );
  assertEquals(
    (await handle("http://app.example.com/rep/session-key"))?.status,
    200,
  );
  assertEquals(await handle("http://evil.example/"), undefined);
});

Deno.test("allowedHosts: X-Forwarded-Host counts from a trusted proxy only", async () => {
  const options = {
    allowedHosts: ["app.example.com:443"],
    trustedProxies: ["10.0.0.1"],
  };
  await using gate = await setUpSite(options);
  const forwarded = {
    "x-forwarded-host": "app.example.com",
    "x-forwarded-proto": "https",
  };
  const evil = { ...forwarded, "x-forwarded-host": "evil.example" };
  const appended = {
    ...forwarded,
    "x-forwarded-host": "app.example.com, evil.example",
  };
  assertEquals([
    await statusOf(gate, "http://gateway.internal/", forwarded, "10.0.0.1"),
    await statusOf(gate, "http://gateway.internal/", forwarded, "10.0.0.2"),
    await statusOf(gate, "http://app.example.com:443/", evil, "10.0.0.1"),
    await statusOf(gate, "http://gateway.internal/", appended, "10.0.0.1"),
    await statusOf(gate, "http://gateway.internal/", {}, "10.0.0.1"),
  ], [200, 421, 421, 421, 421]);
});

const WARNINGS: [
  kind: string,
  variables: Record<string, string>,
  options: GatewayOptions,
  isWarned: boolean,
][] = [
  ["without allowed hosts and origins", VARIABLES, {}, true],
  [
    "with allowed hosts",
    VARIABLES,
    { allowedHosts: ["app.example.com"] },
    false,
  ],
  ["with allowed origins", VARIABLES, {
    allowedOrigins: ["https://app.example.com"],
  }, false],
  [
    "without SENSITIVE variables",
    { REP_PUBLIC_A: "1", REP_SERVER_B: "1" },
    {},
    false,
  ],
];

for (const [kind, variables, options, isWarned] of WARNINGS) {
  Deno.test(`createGateway() ${isWarned ? "warns" : "does not warn"} about DNS rebinding ${kind}`, async () => {
    await using gate = await setUp(variables, options);
    const warnings = gate.logged("rep.start.warning");
    const detail =
      "SENSITIVE variables are served under any host name, which permits DNS rebinding: " +
      "set the allowed hosts or the allowed origins";
    assertEquals(
      warnings.map(({ level, detail }) => [level, detail]),
      isWarned ? [["WARN", detail]] : [],
    );
  });
}
