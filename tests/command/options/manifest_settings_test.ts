import { assertEquals } from "@std/assert";
import { parseCommandManifest } from "../../../src/command/options/manifest_settings.ts";

/** Returns the settings of a manifest without issues. */
function settingsOf(text: string): unknown {
  const { settings, issues } = parseCommandManifest(text, undefined);
  assertEquals(issues, []);
  return settings;
}

/** Returns the issues of a manifest, without their common prefix. */
function issuesOf(text: string): string[] {
  return parseCommandManifest(text, undefined).issues.map((issue) =>
    issue.replace("Cannot use the manifest: ", "")
  );
}

/** Returns a manifest with these settings; JSON is YAML. */
function withSettings(settings: unknown) {
  return JSON.stringify({ version: "0.1.0", variables: {}, settings });
}

Deno.test("parseCommandManifest() reads the settings of REP-RFC-0001 §6.1", () => {
  const text = `
version: "0.1.0"
variables: {}
settings:
  strict_guardrails: true
  hot_reload: true
  hot_reload_mode: "file_watch"      # file_watch | signal | poll
  hot_reload_poll_interval: "30s"
  session_key_ttl: "30s"
  session_key_max_rate: 10
  allowed_origins:
    - "https://app.example.com"
    - "https://staging.app.example.com"
`;
  assertEquals(settingsOf(text), {
    strict_guardrails: true,
    hot_reload: true,
    hot_reload_mode: "file_watch",
    hot_reload_poll_interval: 30_000,
    session_key_ttl: 30_000,
    session_key_max_rate: 10,
    allowed_origins: [
      "https://app.example.com",
      "https://staging.app.example.com",
    ],
  });
});

const INVALID_SETTINGS: readonly (readonly [
  setting: string,
  expected: string,
  ...values: unknown[],
])[] = [
  ["strict_guardrails", "true or false", "true", 1, null, []],
  ["hot_reload", "true or false", "yes", 0, {}],
  ["hot_reload_mode", "one of signal, file_watch, poll", "watch", true, [
    "poll",
  ]],
  [
    "hot_reload_poll_interval",
    "a duration from 1s to 24h, such as 30s",
    30,
    "30",
    "0s",
    "25h",
    "",
  ],
  [
    "session_key_ttl",
    "a duration from 1s to 30s, such as 30s",
    30,
    "31s",
    "1m",
    "0s",
  ],
  [
    "session_key_max_rate",
    "an integer from 1 to 5000",
    "10",
    0,
    1.5,
    10_001,
    -1,
  ],
  [
    "allowed_origins",
    "origins such as https://app.example.com, without wildcards",
    "https://a.example",
    [1],
    [""],
    [["https://a.example"]],
    ["https://a.example/path"],
    ["https://a.example", "a.example"],
    ["https://*.example.com"],
  ],
];

Deno.test("parseCommandManifest() rejects settings of another type, or out of range", () => {
  for (const [setting, expected, ...values] of INVALID_SETTINGS) {
    for (const value of values) {
      const issues = issuesOf(withSettings({ [setting]: value }));
      assertEquals(
        [value, ...issues.map((issue) => issue.split(", got ")[0])],
        [value, `settings.${setting}: expected ${expected}`],
      );
    }
  }
});

Deno.test("parseCommandManifest() normalizes origins, of which there may be none", () => {
  const read = (allowed_origins: unknown) =>
    settingsOf(withSettings({ allowed_origins }));
  assertEquals(read(["https://A.example:443/"]), {
    allowed_origins: ["https://a.example"],
  });
  assertEquals(read([]), { allowed_origins: [] });
  assertEquals(read(null), { allowed_origins: [] });
});
