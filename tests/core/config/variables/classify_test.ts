import { assertEquals } from "@std/assert";
import { classify } from "../../../../src/core/config/variables/snapshot.ts";
import type { Environment } from "../../../../src/core/config/variables/tiers.ts";

/** Environments, and what they contain: each variable as its tier, its name and its value. */
const SORTED: Record<string, [environment: Environment, ...found: string[]]> = {
  "by prefix, without the prefix": [
    {
      REP_PUBLIC_API_URL: "https://api.example.com",
      REP_SENSITIVE_KEY: "s3cret",
      REP_SERVER_TOKEN: "t0ken",
    },
    "public API_URL=https://api.example.com",
    "sensitive KEY=s3cret",
    "server TOKEN=t0ken",
  ],
  "with only one prefix removed": [
    { REP_PUBLIC_REP_PUBLIC_A: "x", REP_PUBLIC_SERVER_B: "y" },
    "public REP_PUBLIC_A=x",
    "public SERVER_B=y",
  ],
  "with names in two tiers that differ in case": [
    { REP_PUBLIC_KEY: "1", REP_SENSITIVE_key: "2" },
    "public KEY=1",
    "sensitive key=2",
  ],
  "with names of properties that all objects have": [
    { REP_PUBLIC___proto__: "a", REP_PUBLIC_constructor: "b" },
    "public __proto__=a",
    "public constructor=b",
  ],
  "with values as they are, the empty one included": [
    { REP_PUBLIC_A: "", REP_PUBLIC_B: " a=b\n$HOME ünïcödé" },
    "public A=",
    "public B= a=b\n$HOME ünïcödé",
  ],
};

for (const [how, [environment, ...expected]] of Object.entries(SORTED)) {
  Deno.test(`classify() returns variables ${how}`, () => {
    const { variables, issues } = classify(environment);
    const found = variables.map(({ tier, name, value }) =>
      `${tier} ${name}=${value}`
    );
    assertEquals([found, issues], [expected, []]);
  });
}

Deno.test("classify() ignores variables without one of the three prefixes", () => {
  const names =
    "PATH API_URL REP_API_URL REP_GATEWAY_PORT REP_PUBLIC REP_public_A rep_public_a XREP_PUBLIC_A REP__PUBLIC_A REP_PRIVATE_A REP_PUBLICA";
  const ignored = [" REP_PUBLIC_A", ...names.split(" ")];
  const environment = Object.fromEntries(ignored.map((name) => [name, "x"]));
  assertEquals(classify(environment), { variables: [], issues: [] });
});

Deno.test("classify() reports values that are no strings, every collision with all its names, and a prefix without a name, without values", () => {
  const environment: Record<string, unknown> = {
    REP_PUBLIC_MAX: 5,
    REP_SENSITIVE_X: null,
    REP_SERVER_Y: undefined,
    REP_PUBLIC_Z: ["s3cret"],
    D: 1,
    REP_SERVER_A: "1",
    REP_PUBLIC_A: "2",
    REP_SENSITIVE_A: "3",
    REP_SERVER_B: "4",
    REP_PUBLIC_B: "5",
    REP_PUBLIC_: "x",
  };
  const { issues } = classify(environment as Environment);
  assertEquals(issues.map(({ text }) => text), [
    "Cannot use REP_PUBLIC_MAX: expected a string, got a number",
    "Cannot use REP_SENSITIVE_X: expected a string, got nothing",
    "Cannot use REP_SERVER_Y: expected a string, got nothing",
    "Cannot use REP_PUBLIC_Z: expected a string, got a list",
    "Cannot use REP_PUBLIC_: expected a name after the prefix",
    "Cannot use REP_PUBLIC_A and REP_SENSITIVE_A and REP_SERVER_A: expected a name in one tier only",
    "Cannot use REP_PUBLIC_B and REP_SERVER_B: expected a name in one tier only",
  ]);
});
