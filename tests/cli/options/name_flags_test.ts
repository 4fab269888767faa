import { assertEquals } from "@std/assert";
import {
  nameFlags,
  withFlagNames,
} from "../../../src/cli/options/name_flags.ts";
import {
  type CommandOptions,
  OPTION_NAMES,
  OPTIONS,
} from "../../../src/cli/options/option_table.ts";
import { toGatewayOptions } from "../../../src/cli/options/to_gateway_options.ts";
import { silentLog } from "../../../src/observe/log.ts";
import { systemClock } from "../../../src/values/clock.ts";
import { captureLog } from "../../_gateway.ts";

Deno.test("nameFlags() names the flag of every option of the module whose name is not a single word", () => {
  const defaults = Object.fromEntries(
    OPTION_NAMES.map((name) => [name, OPTIONS[name].default]),
  ) as CommandOptions;
  const names = Object.keys(
    toGatewayOptions(defaults, { clock: systemClock, log: silentLog }),
  ).filter((name) => /[A-Z]/.test(name));
  const unknown = names.filter((name) =>
    !OPTION_NAMES.includes(nameFlags(name).slice(2) as never)
  );
  assertEquals(names.includes("allowedHosts"), true);
  assertEquals(unknown, ["sourceOf", "separateHealth"]); // a function, and --health-port says where as well
});

/** Messages of the module, and what the command says. */
const MESSAGES: readonly [message: string, expected: string][] = [
  [
    "expected allowedHosts or allowedOrigins",
    "expected --allowed-hosts or --allowed-origins",
  ],
  [
    "if it is your proxy, add it to trustedProxies",
    "if it is your proxy, add it to --trusted-proxies",
  ],
  [
    'Cannot serve staticDir "a/staticDir": expected',
    'Cannot serve --static-dir "a/staticDir": expected',
  ],
  [
    "sessionKeyTtlMs, staticCacheBytes: too large",
    "--session-key-ttl, --static-cache: too large",
  ],
  [
    "expected an `app`, a `masterKey`, or another `store`",
    "expected an --app, a REP_GATEWAY_MASTER_KEY, or another --kv",
  ],
  ['Cannot open storePath "kv.sqlite3"', 'Cannot open --kv "kv.sqlite3"'],
  [
    "the upstream, the manifest, notAllowedHosts",
    "the upstream, the manifest, notAllowedHosts",
  ],
  ["", ""],
];

for (const [message, expected] of MESSAGES) {
  Deno.test(`nameFlags() makes "${expected}" of "${message}"`, () =>
    assertEquals(nameFlags(message), expected));
}

Deno.test("withFlagNames() returns a log whose details name flags, and no other fields", () => {
  const { log, lines } = captureLog();
  const named = withFlagNames(log);
  for (const level of ["debug", "info", "warn", "error"] as const) {
    named[level]("event", {
      detail: "expected allowedHosts",
      peer: "allowedHosts",
    });
    named[level]("event");
  }
  assertEquals(lines.map(({ level, detail, peer }) => [level, detail, peer]), [
    ...["DEBUG", "INFO", "WARN", "ERROR"].flatMap((level) => [
      [level, "expected --allowed-hosts", "allowedHosts"],
      [level, undefined, undefined],
    ]),
  ]);
});
