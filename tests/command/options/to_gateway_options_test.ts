import { assertEquals, assertNotEquals } from "@std/assert";
import {
  OPTION_NAMES,
  type StartOptions,
} from "../../../src/command/options/option_table.ts";
import { toGatewayOptions } from "../../../src/command/options/to_gateway_options.ts";
import { resolveSettings } from "../../../src/options.ts";
import { createSources } from "../../../src/command/sources/variable_sources.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import { systemClock } from "../../../src/core/values/clock.ts";
import { optionsOf } from "../_options.ts";

type Converted = ReturnType<typeof toGatewayOptions>;

const CONTEXT = { clock: systemClock, log: silentLog };

/** Parses a command line and converts its options. */
function convert(...args: string[]) {
  const options = optionsOf(args);
  return toGatewayOptions(options, othersOf(options));
}

/** What the process adds. */
function othersOf(options: StartOptions) {
  const { variables, manifest } = createSources(options, CONTEXT);
  return {
    variables,
    manifest,
    neverServed: [],
    services: {
      instanceId: undefined,
      masterKey: undefined,
      store: memoryStore(),
      log: silentLog,
      telemetry: undefined,
      clock: systemClock,
    },
  };
}

/** For every option of the gateway that has a value: a flag that sets it, and the value. */
const CASES: {
  [
    N in Exclude<
      keyof Converted,
      | keyof ReturnType<typeof othersOf>
      | keyof ReturnType<typeof othersOf>["services"]
      | "manifestPath"
      | "loadPatternLibrary"
      | "random"
    >
  ]: readonly [flag: string, value: Converted[N]];
} = {
  app: ["--app=shop", "shop"],
  revision: ["--revision=8f3a1c9", "8f3a1c9"],
  strict: ["--strict", true],
  acceptPublic: ["--accept-public=A,REP_PUBLIC_B", ["A", "B"]],
  hotReload: ["--hot-reload", true],
  startWithoutStore: ["--start-without-store", true],
  ofrep: ["--ofrep", true],
  allowedOrigins: ["--allowed-origins=https://app.example.com", [
    "https://app.example.com",
  ]],
  allowedHosts: ["--allowed-hosts=app.example.com,*.example.org", [
    "app.example.com",
    "*.example.org",
  ]],
  trustedProxies: ["--trusted-proxies=10.0.0.0/8,::1", ["10.0.0.0/8", "::1"]],
  sessionKeyTtlMs: ["--session-key-ttl=7s", 7_000],
  sessionKeyMaxRate: ["--session-key-max-rate=11", 11],
  keyRotationMs: ["--key-rotation=11m", 660_000],
  keyRetentionMs: ["--key-retention=12h", 43_200_000],
  maxStreams: ["--max-streams=7", 7],
  maxStreamsPerClient: ["--max-streams-per-client=3", 3],
  maxStreamAgeMs: ["--max-stream-age=31m", 1_860_000],
  accessLog: ["--access-log", true],
  separateHealth: ["--health-port=9000", true],
  basePath: ["--base-path=/app/", "/app"],
  preserveHost: ["--preserve-host", true],
  staticCacheBytes: ["--static-cache=1MiB", 1_048_576],
  immutable: ["--immutable=assets/*,logo.svg", ["assets/*", "logo.svg"]],
  staticDir: ["--static-dir=dist", "dist"],
  fallback: ["--fallback=app.html", "app.html"],
  upstream: [
    "--upstream=127.0.0.1:3000/base",
    new URL("http://127.0.0.1:3000/base"),
  ],
  upstreamTimeoutMs: ["--upstream-timeout=5s", 5_000],
  maxTransfers: ["--max-transfers=7", 7],
  rejectWebsockets: ["--reject-websockets", true],
};

Deno.test("toGatewayOptions() passes on what each flag sets", () => {
  for (const [name, [flag, value]] of Object.entries(CASES)) {
    const option = name as keyof typeof CASES;
    assertEquals<unknown>([flag, convert(flag)[option]], [flag, value]);
    assertNotEquals<unknown>(convert()[option], value);
  }
});

Deno.test("toGatewayOptions() returns the defaults of the gateway for those of the command", () => {
  assertEquals(resolveSettings(convert()), resolveSettings({}));
});

Deno.test("toGatewayOptions() reads every option but those of the process", () => {
  const read = new Set<string>();
  const options = optionsOf([]);
  const recorded = new Proxy(options, {
    get(target, name) {
      read.add(String(name));
      return Reflect.get(target, name);
    },
  });
  toGatewayOptions(recorded, othersOf(recorded));
  const ofProcess = [
    "port",
    "hostname",
    "mode",
    "poll-interval",
    "kv",
    "drain",
    "stop-delay",
    "audit-log",
    "log-format",
    "log-level",
    "releases",
    "sites",
  ];
  const unread = OPTION_NAMES.filter((name) => !read.has(name));
  assertEquals(unread.toSorted(), [...ofProcess, "tls-cert", "tls-key"].sort());
});
