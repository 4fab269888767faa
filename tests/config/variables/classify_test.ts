import { assertEquals } from "@std/assert";
import { classify } from "../../../src/config/variables/snapshot.ts";
import type { Environment } from "../../../src/config/variables/tiers.ts";

Deno.test("classify() sorts variables by prefix and strips the prefix", () => {
  assertEquals(
    classify({
      REP_PUBLIC_API_URL: "https://api.example.com",
      REP_SENSITIVE_KEY: "s3cret",
      REP_SERVER_TOKEN: "t0ken",
    }),
    {
      variables: [
        { name: "API_URL", tier: "public", value: "https://api.example.com" },
        { name: "KEY", tier: "sensitive", value: "s3cret" },
        { name: "TOKEN", tier: "server", value: "t0ken" },
      ],
      issues: [],
    },
  );
});

Deno.test("classify() keeps values unchanged, the empty one included", () => {
  const values = ["", " ", "a=b", "line\nline", "ünïcödé", "$HOME"];
  const environment = Object.fromEntries(
    values.map((value, index) => [`REP_PUBLIC_V${index}`, value]),
  );
  assertEquals(
    classify(environment).variables.map(({ value }) => value),
    values,
  );
});

Deno.test("classify() ignores variables without one of the three prefixes", () => {
  const names = [
    "PATH",
    "HOME",
    "API_URL",
    "REP_API_URL",
    "REP_GATEWAY_PORT",
    "REP_PUBLIC",
    "REP_public_A",
    "rep_public_a",
    "XREP_PUBLIC_A",
    " REP_PUBLIC_A",
    "REP__PUBLIC_A",
    "REP_PRIVATE_A",
    "REP_PUBLICA",
  ];
  assertEquals(classify(Object.fromEntries(names.map((name) => [name, "x"]))), {
    variables: [],
    issues: [],
  });
});

Deno.test("classify() reports values that are no strings by name, and without the value", () => {
  const values = {
    REP_PUBLIC_MAX: 5,
    REP_SENSITIVE_A: null,
    REP_SERVER_B: undefined,
    REP_PUBLIC_C: ["s3cret"],
    D: 1,
  };
  const environment = {
    ...values,
    REP_PUBLIC_E: "e",
  } as unknown as Environment;
  assertEquals(classify(environment), {
    variables: [{ name: "E", tier: "public", value: "e" }],
    issues: [
      "Cannot use REP_PUBLIC_MAX: expected a string, got a number",
      "Cannot use REP_SENSITIVE_A: expected a string, got nothing",
      "Cannot use REP_SERVER_B: expected a string, got nothing",
      "Cannot use REP_PUBLIC_C: expected a string, got a list",
    ],
  });
});

Deno.test("classify() strips one prefix only", () => {
  assertEquals(
    classify({ REP_PUBLIC_REP_PUBLIC_A: "x", REP_PUBLIC_SERVER_B: "y" })
      .variables,
    [
      { name: "REP_PUBLIC_A", tier: "public", value: "x" },
      { name: "SERVER_B", tier: "public", value: "y" },
    ],
  );
});

Deno.test("classify() reports all names of a collision, and all collisions", () => {
  const environment = {
    REP_SERVER_A: "1",
    REP_PUBLIC_A: "2",
    REP_SENSITIVE_A: "3",
    REP_SERVER_B: "4",
    REP_PUBLIC_B: "5",
  };
  assertEquals(classify(environment).issues, [
    "Cannot use REP_PUBLIC_A and REP_SENSITIVE_A and REP_SERVER_A: expected a name in one tier only",
    "Cannot use REP_PUBLIC_B and REP_SERVER_B: expected a name in one tier only",
  ]);
});

Deno.test("classify() accepts names in two tiers that differ in case", () => {
  assertEquals(
    classify({ REP_PUBLIC_KEY: "1", REP_SENSITIVE_key: "2" }).issues,
    [],
  );
});

Deno.test("classify() reports a prefix without a name", () => {
  assertEquals(classify({ REP_PUBLIC_: "x" }).issues, [
    "Cannot use REP_PUBLIC_: expected a name after the prefix",
  ]);
});

Deno.test("classify() accepts names of properties that all objects have", () => {
  const environment = {
    REP_PUBLIC___proto__: "a",
    REP_PUBLIC_constructor: "b",
    REP_PUBLIC_toString: "c",
  };
  assertEquals(classify(environment), {
    variables: [
      { name: "__proto__", tier: "public", value: "a" },
      { name: "constructor", tier: "public", value: "b" },
      { name: "toString", tier: "public", value: "c" },
    ],
    issues: [],
  });
});
