import { assertEquals, assertNotEquals, equal } from "@std/assert";
import type { Option } from "../../../src/command/options/option_kinds.ts";
import {
  OPTION_NAMES,
  type OptionName,
  OPTIONS,
  type StartOptions,
} from "../../../src/command/options/option_table.ts";
import { toGatewayOptions } from "../../../src/command/options/to_gateway_options.ts";
import { resolveSettings } from "../../../src/options.ts";
import { createSources } from "../../../src/command/sources/variable_sources.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import { systemClock } from "../../../src/core/values/clock.ts";
import { optionsOf } from "../_options.ts";

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

/** Texts of which one at least is a valid value of each option, and not its default. */
const TEXTS = [
  "true",
  "7",
  "7s",
  "10s",
  "1MiB",
  "https://a.example",
  "10.0.0.0/8",
  "A",
  "/app",
];

/** Returns a value of an option that is not its default, with its text. */
function exampleOf(flag: OptionName) {
  const option: Option<unknown> = OPTIONS[flag];
  for (const text of TEXTS) {
    const value = option.parse(text);
    if (value !== undefined && !equal(value, option.default)) {
      return { text, value };
    }
  }
  throw new Error(`None of TEXTS is a value of --${flag}`);
}

for (const flag of OPTION_NAMES) {
  const { gateway, value: placeholder }: Option<unknown> = OPTIONS[flag];
  if (gateway === undefined) continue;
  const { text, value } = exampleOf(flag);

  Deno.test(`toGatewayOptions() passes on --${flag}=${text} as ${gateway}`, () => {
    assertEquals<unknown>(convert(`--${flag}=${text}`)[gateway], value);
    assertNotEquals<unknown>(convert()[gateway], value);
  });

  Deno.test(`toGatewayOptions() gives the value of --${flag} to the option of that name, with its unit`, () => {
    const units: Record<string, string> = { DURATION: "Ms", SIZE: "Bytes" };
    const camelCase = flag.replace(/-(.)/g, (_, it) => it.toUpperCase());
    assertEquals(gateway, camelCase + (units[placeholder ?? ""] ?? ""));
  });
}

Deno.test("toGatewayOptions() says whether health has a port of its own", () => {
  assertEquals(convert("--health-port=9000").separateHealth, true);
  assertEquals(convert().separateHealth, false);
});

Deno.test("toGatewayOptions() returns the defaults of the gateway for those of the command", () => {
  assertEquals(resolveSettings(convert()), resolveSettings({}));
});
