import { assertEquals } from "@std/assert";
import { parseManifest } from "../../src/config/manifest.ts";
import { findSuspiciousNames } from "../../src/config/suspicious_names.ts";
import { setUp } from "../_gateway.ts";

const MANIFEST =
  'version: "0.1.0"\nvariables: { A: { tier: public, type: string } }';

function suspiciousIn(
  names: string[],
  manifest = 'version: "0.1.0"\nvariables: {}',
): string[] {
  const environment = Object.fromEntries(names.map((name) => [name, "secret"]));
  return findSuspiciousNames(
    environment,
    parseManifest(manifest, { path: undefined, readSettings: undefined })
      .manifest,
  ).map(({ name }) => name);
}

Deno.test("findSuspiciousNames() finds REP_ names without a tier, except options", () => {
  const names = [
    "REP_PUBLC_A",
    "REP_A",
    "REP_",
    "REP_PUBLICA",
    "REP_PUBLIC_A",
    "REP_SENSITIVE_B",
    "REP_SERVER_C",
  ];
  assertEquals(
    suspiciousIn([...names, "REP_GATEWAY_PORT", "REP_GATEWAY_PROT", "HOME"]),
    names.slice(0, 4),
  );
});

Deno.test("findSuspiciousNames() finds names that the manifest does not declare, if it declares any", () => {
  assertEquals(
    suspiciousIn(["REP_PUBLIC_A", "REP_PUBLIC_B", "REP_SERVER_C"], MANIFEST),
    [
      "REP_PUBLIC_B",
      "REP_SERVER_C",
    ],
  );
  assertEquals(suspiciousIn(["REP_PUBLIC_B"]), []);
});

Deno.test("a suspicious name is logged once, without its value", async () => {
  const names = { REP_PUBLIC_B: "1", REP_PUBLC_A: "s3cret" };
  await using test = await setUp(names, { manifest: MANIFEST });
  await test.set({ ...names, REP_PUBLIC_A: "2" });
  const lines = test.lines.filter(({ msg }) =>
    msg === "rep.config.suspicious_name"
  );
  const ignored =
    "it is ignored: expected the prefix REP_PUBLIC_, REP_SENSITIVE_ or REP_SERVER_";
  assertEquals(
    lines.map((
      { level, variable_name, detail },
    ) => [level, variable_name, detail]),
    [
      ["WARN", "REP_PUBLC_A", ignored],
      ["WARN", "REP_PUBLIC_B", "the manifest does not declare it"],
    ],
  );
  assertEquals(JSON.stringify(lines).includes("s3cret"), false);
});
