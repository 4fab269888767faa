import { assertEquals, assertRejects } from "@std/assert";
import { evaluate } from "../../../../src/core/config/variables/snapshot.ts";
import { memoryStore } from "../../../../src/engines/memory.ts";
import { readEnvFile } from "../../../../src/sources.ts";
import { setStoredVariables } from "../../../../src/stored/set_stored_variables.ts";
import { run } from "../../../command/commands/_run.ts";
import { setUp } from "../../../_gateway.ts";
import { snapshotInput } from "../../../_snapshot.ts";
import { TempDirectory } from "../../../_temp.ts";

const QUOTES = "expected a value without quotes around it";
const SPACE = "expected a value without white space around it";
const PEM = "-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\n";

/** Values, and the details of the warning; none if there is no warning. */
const VALUES: readonly [value: string, detail?: string][] = [
  ['"https://a.example"', QUOTES],
  ["'https://a.example'", QUOTES],
  ["`a`", QUOTES],
  ['""', QUOTES],
  [`'{"a":1}'`, QUOTES],
  [`"${PEM}"`, QUOTES],
  ['"a\nb"', QUOTES],
  ["'a' or 'b'", QUOTES],
  [" 5", SPACE],
  ["5 ", SPACE],
  ["a\n", SPACE],
  ["\r\na", SPACE],
  ["\ta", SPACE],
  ["a\u00a0", SPACE],
  ["\ufeffa", SPACE],
  [" ", SPACE],
  [' "a"', SPACE],
  ["{a}\n", SPACE],
  ["true\n", SPACE],
  [""],
  ['"'],
  ["'"],
  ["a"],
  ["a b\nc"],
  [`say "no"`],
  ["\"a'"],
  [PEM],
  [`\n ${PEM}`],
  [`subject=a\n${PEM}`],
  ['{"a": 1}\n'],
  [' [\n "a"\n]\n'],
];

for (const [value, detail] of VALUES) {
  Deno.test(`a value in any tier leads to ${detail ?? "no warning"}: ${JSON.stringify(value)}`, async () => {
    for (const tier of ["PUBLIC", "SENSITIVE", "SERVER"]) {
      const name = `REP_${tier}_A`;
      const input = snapshotInput({ environment: { [name]: value } });
      const { otherFindings, warnings, issues } = await evaluate({
        ...input,
        strict: true,
      });
      const own = otherFindings.map((it) => [it.event, it.name, it.detail]);
      const event = "rep.config.suspicious_value";
      assertEquals(own, detail === undefined ? [] : [[event, name, detail]]);
      const isPlain = !value.includes("BEGIN");
      if (isPlain) assertEquals([warnings, issues], [[], []]); // it is no guardrail
      const strict = await evaluate({
        ...input,
        rejectsSuspiciousValues: true,
      });
      const issue = { variable: name, text: `Cannot use ${name}: ${detail}` };
      assertEquals(
        [strict.issues, strict.otherFindings],
        [detail === undefined ? [] : [issue], []],
      );
    }
  });
}

const MANIFEST = `version: "0.1.0"
variables:
  N: { tier: public, type: number }
  J: { tier: public, type: json }
`;

Deno.test("JSON is a value with quotes or white space only if the manifest does not say that it is JSON", async () => {
  for (const value of ['"https://a.example"', " 5", '\n"a" ', "null\n"]) {
    const environment = { REP_PUBLIC_J: value };
    const input = snapshotInput({ environment, manifest: MANIFEST });
    const { otherFindings, issues } = await evaluate(input);
    assertEquals([otherFindings, issues], [[], []]);
    const { otherFindings: without } = await evaluate(
      snapshotInput({ environment }),
    );
    assertEquals(without.length, 1);
  }
});

Deno.test("a stored number with white space stays as it is, and is one warning, without any value", async () => {
  const store = memoryStore();
  await setStoredVariables(store, { N: " 5" }, { force: true });
  const secrets = {
    REP_SENSITIVE_S: "'s3cret'",
    REP_SERVER_T: "s3cret\n",
  };
  await using test = await setUp(secrets, {
    store,
    manifest: MANIFEST,
    strict: true,
  });
  await test.set({ ...secrets, REP_PUBLIC_A: "1" });
  assertEquals(test.gateway.get("N"), " 5");
  const { guardrails } = await (await test.ask("/rep/health")).json();
  assertEquals(guardrails, { warnings: 0, blocked: 0 });
  const lines = test.logged("rep.config.suspicious_value");
  assertEquals(
    lines.map((
      { level, variable_name: name, detail },
    ) => [level, name, detail]),
    [
      ["WARN", "REP_SENSITIVE_S", QUOTES],
      ["WARN", "REP_SERVER_T", SPACE],
      ["WARN", "REP_PUBLIC_N", SPACE],
    ],
  );
  assertEquals(JSON.stringify(test.lines).includes("s3cret"), false);
});

Deno.test("validate warns of values from each source, and rejects them with --strict", async () => {
  await using directory = await TempDirectory.make({
    "app.env": `REP_PUBLIC_A="'a'"\nREP_PUBLIC_B='b'\n`,
  });
  await using mount = await TempDirectory.make({
    REP_PUBLIC_C: "c\n",
    REP_PUBLIC_D: "d\n\n",
  });
  const args = [directory.at("app.env"), mount.at("")]
    .flatMap((path) => ["--env-file", path]);
  const environment = { REP_SERVER_E: '"s3cret"' };
  const found = [
    `REP_PUBLIC_A: ${QUOTES}`,
    `REP_PUBLIC_D: ${SPACE}`,
    `REP_SERVER_E: ${QUOTES}`,
  ];
  const plain = await run(["validate", "--json", ...args], environment);
  const report = JSON.parse(plain.out.join("\n"));
  assertEquals([plain.code, report.issues, report.warnings], [0, [], found]);
  const strict = await run(
    ["validate", "--json", "--strict", ...args],
    environment,
  );
  const { valid, issues, warnings } = JSON.parse(strict.out.join("\n"));
  assertEquals([strict.code, valid, warnings], [1, false, []]);
  assertEquals(issues, found.map((text) => `Cannot use ${text}`));
  assertEquals(JSON.stringify([plain, strict]).includes("s3cret"), false);
  const variables = await readEnvFile(mount.at(""));
  assertEquals(variables, { REP_PUBLIC_C: "c", REP_PUBLIC_D: "d\n" });
});

Deno.test("set rejects such values unless it is forced, and no other variable", async () => {
  const store = memoryStore();
  const manifest = `version: "0.1.0"
variables:
  N: { tier: public, type: number, default: " 5" }
`;
  for (const value of ['"a"', "a ", "a\n"]) {
    const { message } = await assertRejects(
      () => setStoredVariables(store, { A: value }, { manifest }),
    ) as Error;
    assertEquals(message.startsWith("Cannot use REP_PUBLIC_A: expected"), true);
    await setStoredVariables(store, { A: value }, { manifest, force: true });
  }
  await setStoredVariables(store, { A: "a" }, {
    manifest,
    environment: { REP_PUBLIC_B: " b", REP_SERVER_C: "'c'" },
  });
});
