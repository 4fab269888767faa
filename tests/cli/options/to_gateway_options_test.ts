import { assertEquals, assertNotEquals } from "@std/assert";
import {
  OPTION_NAMES,
  type StartOptions,
} from "../../../src/cli/options/option_table.ts";
import {
  parseCommandLine,
  readOptions,
} from "../../../src/cli/options/read_options.ts";
import { toGatewayOptions } from "../../../src/cli/options/to_gateway_options.ts";
import { resolveSettings, resolveSources } from "../../../src/options.ts";
import { createSources } from "../../../src/cli/sources/variable_sources.ts";
import { memoryStore } from "../../../src/store/memory.ts";
import { silentLog } from "../../../src/observe/log.ts";
import { systemClock } from "../../../src/values/clock.ts";
import { TempDirectory } from "../../_temp.ts";

type Converted = ReturnType<typeof toGatewayOptions>;

const CONTEXT = { clock: systemClock, log: silentLog };

/** Parses a command line and converts its options. */
function convert(...args: string[]): Converted {
  const options = readOptions({
    flags: parseCommandLine(args).flags,
    environment: {},
    manifest: {},
  });
  return toGatewayOptions(options, othersOf(options));
}

/** What the process adds. */
function othersOf(options: StartOptions) {
  return {
    sources: createSources(options, CONTEXT),
    neverServed: [],
    instanceId: undefined,
    masterKey: undefined,
    store: memoryStore(),
    log: silentLog,
    telemetry: undefined,
    clock: systemClock,
  };
}

/** For every option of the gateway that has a value: a flag that sets it, and the value. */
const CASES: {
  [
    N in Exclude<
      keyof Converted,
      | keyof ReturnType<typeof othersOf>
      | "variables"
      | "manifest"
      | "manifestPath"
      | "loadPatternLibrary"
      | "random"
    >
  ]: readonly [flag: string, value: Converted[N]];
} = {
  app: ["--app=shop", "shop"],
  strict: ["--strict", true],
  hotReload: ["--hot-reload", true],
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
  upstream: [
    "--upstream=127.0.0.1:3000/base",
    new URL("http://127.0.0.1:3000/base"),
  ],
  upstreamTimeoutMs: ["--upstream-timeout=5s", 5_000],
  maxTransfers: ["--max-transfers=7", 7],
  rejectWebsockets: ["--reject-websockets", true],
};

for (
  const [name, [flag, value]] of Object.entries(CASES) as [
    keyof typeof CASES,
    readonly [string, unknown],
  ][]
) {
  Deno.test(`toGatewayOptions() converts ${flag} to ${name}`, () => {
    assertEquals<unknown>(convert(flag)[name], value);
    assertNotEquals<unknown>(convert()[name], value);
  });
}

Deno.test("toGatewayOptions() returns the defaults of the gateway for those of the command", () => {
  assertEquals(resolveSettings(convert()), resolveSettings({}));
});

Deno.test("toGatewayOptions() reads every option but those of the process", () => {
  const read = new Set<string>();
  const options = readOptions({
    flags: parseCommandLine([]).flags,
    environment: {},
    manifest: {},
  });
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
    "log-format",
    "log-level",
  ];
  const unread = OPTION_NAMES.filter((name) => !read.has(name));
  assertEquals(unread.toSorted(), [...ofProcess, "tls-cert", "tls-key"].sort());
});

Deno.test("toGatewayOptions() reads --env-file, or a watched --watch-path, and --manifest", async () => {
  await using directory = await TempDirectory.make({
    "a.env": "REP_PUBLIC_CONVERTED=a",
    "b.env": "REP_PUBLIC_CONVERTED=b",
  });
  const [a, b] = ["a.env", "b.env"].map((name) => directory.at(name));
  const manifest = await directory.write(
    "rep.yaml",
    'version: "0.1.0"\nvariables: {}\nsettings: {hot_reload: true}',
  );
  const read = async (...args: string[]) => {
    const sources = resolveSources(convert(...args), () => "");
    const { environment, manifest } = await sources.read();
    return [environment.REP_PUBLIC_CONVERTED, manifest?.settings];
  };
  assertEquals([
    await read(),
    await read(`--env-file=${a}`, `--manifest=${manifest}`),
    await read(`--watch-path=${b}`),
    await read(`--watch-path=${b}`, "--hot-reload-mode=file_watch"),
  ], [
    [undefined, undefined],
    ["a", { hot_reload: true }], // as the command has parsed it: the gateway itself reads no settings
    [undefined, undefined],
    ["b", undefined],
  ]);
});

Deno.test("toGatewayOptions() selects the directory or the upstream by --mode", () => {
  const both = ["--static-dir=dist", "--upstream=up.example"];
  const select = (...args: string[]) => {
    const { staticDir, upstream } = convert(...args);
    return [staticDir, upstream?.toString()];
  };
  assertEquals([
    select(),
    select("--mode=embedded"),
    select("--mode=proxy"),
    select(...both, "--mode=embedded"),
    select(...both, "--mode=proxy"),
  ], [
    [undefined, undefined],
    ["/usr/share/nginx/html", undefined],
    [undefined, "http://localhost/"],
    ["dist", undefined],
    [undefined, "http://up.example/"],
  ]);
});
