import { assertEquals, assertStringIncludes } from "@std/assert";
import { TempDirectory } from "../../_temp.ts";
import { run, runWith } from "./_run.ts";

const MANIFEST = `version: "0.1.0"
variables:
  API_URL: { tier: public, type: url, required: true, description: "The API */ of the app" }
  LEVEL: { tier: public, type: enum, values: [debug, 3], default: debug }
  MODE: { tier: public, type: enum, values: [a, b] }
  FLAG: { tier: public, type: boolean, default: false }
  BANNER: { tier: public }
  odd-name: { tier: public, default: "" }
  KEY: { tier: sensitive }
  DB: { tier: server, required: true }
`;

/** What compiles with the types of {@linkcode MANIFEST}, and what does not. */
function program(module: string, deleted: string) {
  return `
import rep, { get, getAll, getSecure, onAnyChange, onChange } from "${module}";

const url: string = get("API_URL");
const level: "debug" | "3" = rep.get("LEVEL");
const flag: "true" | "false" = get("FLAG");
const odd: string = get("odd-name");
const mode: "a" | "b" | undefined = get("MODE");
const withDefault: "a" | "b" = get("MODE", "a");
const banner: string = get("BANNER", "none");
const all: { readonly API_URL: string; readonly BANNER?: string } = getAll();
const key: Promise<string> = getSecure("KEY");
onChange("LEVEL", (newValue: "debug" | "3" | ${deleted}, _oldValue: string | undefined) => newValue);
onAnyChange((key, newValue) => [key, newValue]);
// @ts-expect-error It is not required and has no default.
const unset: string = get("BANNER");
// @ts-expect-error It is not one of the values of the enum.
const other: "info" = get("LEVEL");
// @ts-expect-error It is not in the manifest.
get("MISSING");
// @ts-expect-error It is SERVER.
get("DB");
// @ts-expect-error It is SERVER.
getSecure("DB");
// @ts-expect-error It is SENSITIVE.
get("KEY");
// @ts-expect-error It is PUBLIC.
getSecure("API_URL");
console.log(url, level, flag, odd, mode, withDefault, banner, all, key, unset, other);
`;
}

Deno.test("typegen generates types for our client and REP's SDK, with which only correct programs compile", async () => {
  await using project = await TempDirectory.make({
    "rep.yaml": MANIFEST,
    "ours.ts": program("@rep/gateway/client", "undefined"),
    "reps.ts": program("@rep-protocol/sdk", '""'),
    "sdk.ts": "export {};",
    "deno.json": JSON.stringify({
      imports: {
        "@rep/gateway/client":
          new URL("../../../src/client/mod.ts", import.meta.url).href,
        "@rep-protocol/sdk": "./sdk.ts",
      },
      compilerOptions: {
        types: ["./types/rep.d.ts"],
        exactOptionalPropertyTypes: true,
      },
    }),
  });
  await Deno.mkdir(project.at("types"));
  const out = project.at("types/rep.d.ts");
  const args = ["typegen", "--manifest", project.at("rep.yaml"), "--out", out];
  assertEquals(await run(args), { code: 0, out: [], err: [`Wrote ${out}`] });
  const check = new Deno.Command(Deno.execPath(), {
    args: ["check", "--quiet", "--no-lock", "ours.ts", "reps.ts"],
    cwd: project.path,
    env: { NO_COLOR: "1" },
  });
  const { code, stderr } = await check.output();
  assertEquals([new TextDecoder().decode(stderr), code], ["", 0]);
});

Deno.test("typegen --check compares a file with the manifest, and says what differs", async () => {
  await using project = await TempDirectory.make({ "rep.yaml": MANIFEST });
  const manifest = project.at("rep.yaml");
  const out = project.at("rep.d.ts");
  const args = ["typegen", "--manifest", manifest, "--out", out];
  const check = () => run([...args, "--check"]);
  const { code, err: [missing = ""] } = await check();
  assertEquals(code, 1);
  assertStringIncludes(missing, `Cannot read --out "${out}"`);

  await run(args);
  const types = await Deno.readTextFile(out);
  const envTypes =
    "\ninterface ImportMetaEnv {\n  readonly VITE_A: string;\n}\n";
  for (
    const same of [types, types.replaceAll("\n", "\r\n"), types + envTypes]
  ) {
    await Deno.writeTextFile(out, same);
    assertEquals(await check(), { code: 0, out: [], err: [] });
    assertEquals(await Deno.readTextFile(out), same);
  }
  const others = [
    "",
    types.replace("MODE?:", "MODE:"),
    types.replace("BANNER", "BANER"),
    `${types}// edited\n`,
  ];
  for (const other of others) {
    await Deno.writeTextFile(out, other);
    const message =
      `Cannot confirm "${out}": expected the types of "${manifest}", as typegen --out writes them`;
    assertEquals(await check(), { code: 1, out: [], err: [message] });
    assertEquals(await Deno.readTextFile(out), other);
  }
  assertEquals(await run(["typegen", "--manifest", manifest, "--check"]), {
    code: 2,
    out: [],
    err: ["Cannot check types: expected --out FILE"],
  });
});

Deno.test("typegen prints the types without --out, with descriptions as comments", async () => {
  await using project = await TempDirectory.make({ "rep.yaml": MANIFEST });
  const { code, out, err } = await run(["typegen"], {
    REP_GATEWAY_MANIFEST: project.at("rep.yaml"),
  });
  assertEquals([code, err], [0, []]);
  const start = out.indexOf("  export interface PublicVariables {");
  assertEquals(out.slice(start, start + 9), [
    "  export interface PublicVariables {",
    "    /** The API *\\/ of the app */",
    "    readonly API_URL: string;",
    '    readonly LEVEL: "debug" | "3";',
    '    readonly MODE?: "a" | "b";',
    '    readonly FLAG: "true" | "false";',
    "    readonly BANNER?: string;",
    '    readonly "odd-name": string;',
    "  }",
  ]);
});

Deno.test("typegen exits with 1 without a manifest, or for an invalid one", async () => {
  await using project = await TempDirectory.make({
    "rep.yaml": 'version: "0.1.0"\nvariables: { A: {} }',
  });
  const { code, out, err } = await run([
    "typegen",
    "--manifest",
    project.at("rep.yaml"),
  ]);
  assertEquals([code, out, err.length], [1, [], 1]);
  const missing = await runWith(["typegen"], { directory: "" });
  assertEquals(missing.code, 1);
  assertStringIncludes(
    missing.err.join(),
    'Cannot read --manifest ".rep.yaml": No such file or directory',
  );
});

Deno.test("typegen reads .rep.yaml in the current directory", async () => {
  await using project = await TempDirectory.make({ ".rep.yaml": MANIFEST });
  const { code, out } = await runWith(["typegen"], {
    directory: `${project.path}/`,
  });
  assertEquals(code, 0);
  assertStringIncludes(out.join("\n"), "readonly API_URL: string;");
});

Deno.test("typegen marks what is deprecated, with the message if there is one", async () => {
  const manifest = `version: "0.1.0"
variables:
  A: { tier: public, deprecated: true }
  B: { tier: public, deprecated: true, deprecated_message: "Use A" }
  C: { tier: public, deprecated: true, deprecated_message: "Use A", description: "The third" }
`;
  await using project = await TempDirectory.make({ "rep.yaml": manifest });
  const { out } = await run(["typegen", "--manifest", project.at("rep.yaml")]);
  const start = out.indexOf("  export interface PublicVariables {");
  assertEquals(out.slice(start + 1, start + 10), [
    "    /** @deprecated */",
    "    readonly A?: string;",
    "    /** @deprecated Use A */",
    "    readonly B?: string;",
    "    /**",
    "     * The third",
    "     * @deprecated Use A",
    "     */",
    "    readonly C?: string;",
  ]);
});
