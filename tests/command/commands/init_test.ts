import { assertEquals } from "@std/assert";
import type { CommandIo } from "../../../src/command/commands/command_io.ts";
import { TempDirectory } from "../../_temp.ts";
import { type Outcome, run, runWith } from "./_run.ts";

/**
 * Runs init for an app.
 *
 * @param answers What the user answers; without it, there is no terminal.
 * @returns What it prints and asks, without the path of the app.
 */
async function init(
  app: TempDirectory,
  answers?: boolean[],
  options: readonly string[] = [],
): Promise<Outcome & { questions: string[] }> {
  const questions: string[] = [];
  const confirm: CommandIo["confirm"] = (question) => {
    questions.push(question);
    return Promise.resolve(answers?.shift());
  };
  const files = ["--manifest", app.at(".rep.yaml"), "--env-file", envFile(app)];
  const line = ["init", app.path, ...files, ...options];
  const outcome = await runWith(line, { confirm });
  const text = JSON.stringify({ ...outcome, questions });
  return JSON.parse(text.replaceAll(`${app.path}/`, ""));
}

function envFile(app: TempDirectory) {
  return app.at("app.env");
}

/** Checks the manifest and the env file of an app. */
async function validate(app: TempDirectory) {
  const files = ["--manifest", app.at(".rep.yaml"), "--env-file", envFile(app)];
  return await run(["validate", ...files]);
}

const APP = `export const url = import.meta.env.VITE_API_URL;
const { VITE_TITLE } = import.meta.env;
process.env.REACT_APP_FLAG, process.env["NEXT_PUBLIC_PLAN"], env.NUXT_PUBLIC_SITE, env.VUE_APP_LIMIT;
import.meta.env.PUBLIC_ASTRO, import.meta.env.MODE, import.meta.env.VITE_API_URL;
process.env.DATABASE_URL, process.env.NODE_ENV, process.env.PUBLIC_URL;
`;

const ENV = `VITE_API_URL=https://api.example/v1
VITE_TITLE="It's $5 \\"off\\""
REACT_APP_FLAG=true
VUE_APP_LIMIT=10
VITE_ONLY_HERE=x
DATABASE_URL=postgres://db
`;

Deno.test("init writes the variables of pages that sources and env files have, and their values", async () => {
  await using app = await TempDirectory.make({ "app.tsx": APP, ".env": ENV });
  await app.write(".env.local", "VITE_API_URL=http://localhost:3000\n");
  for (const folder of ["node_modules", "dist", ".cache"]) {
    await Deno.mkdir(app.at(folder));
    await app.write(`${folder}/a.js`, "import.meta.env.VITE_OTHER");
  }
  assertEquals(await init(app), {
    code: 0,
    out: [".rep.yaml: written", "app.env: written"],
    err: [
      "ASTRO has no value: set it in app.env",
      "PLAN has no value: set it in app.env",
      "SITE has no value: set it in app.env",
      "Found 8 variables of pages",
    ],
    questions: [],
  });
  const manifest = await Deno.readTextFile(app.at(".rep.yaml"));
  const [, declared = ""] = manifest.split("variables:\n");
  assertEquals(declared.replaceAll(`${app.path}/`, "").split("\n"), [
    "  API_URL: { tier: public, type: url, required: true } # VITE_API_URL, app.tsx:1",
    "  ASTRO: { tier: public, type: string } # PUBLIC_ASTRO, app.tsx:4",
    "  FLAG: { tier: public, type: boolean, required: true } # REACT_APP_FLAG, app.tsx:3",
    "  LIMIT: { tier: public, type: number, required: true } # VUE_APP_LIMIT, app.tsx:3",
    "  ONLY_HERE: { tier: public, type: string, required: true } # VITE_ONLY_HERE, .env:5",
    "  PLAN: { tier: public, type: string } # NEXT_PUBLIC_PLAN, app.tsx:3",
    "  SITE: { tier: public, type: string } # NUXT_PUBLIC_SITE, app.tsx:3",
    "  TITLE: { tier: public, type: string, required: true } # VITE_TITLE, app.tsx:2",
    "",
  ]);
  const validated = await validate(app);
  assertEquals([validated.code, validated.err], [0, ["Valid: 8 variables"]]);
  const title = validated.out.find((line) => line.startsWith("TITLE"));
  assertEquals(
    title?.replace(/ +/g, " "),
    `TITLE public ${envFile(app)} It's $5 "off"`,
  );
});

Deno.test("init makes SENSITIVE what looks like a secret, by its value or its name, and says so", async () => {
  const secret = "sk_live_abcdefghijklmnop1234";
  await using app = await TempDirectory.make({
    "a.js": "process.env.REACT_APP_UPLOAD_TOKEN",
    ".env": `VITE_PAYMENT=${secret}\n`,
  });
  const reads =
    "pages read it with getSecure(), and previous builds contain it";
  assertEquals(await init(app), {
    code: 0,
    out: [".rep.yaml: written", "app.env: written"],
    err: [
      `Warning: PAYMENT is SENSITIVE, since the value looks like a Stripe secret key: ${reads}`,
      `Warning: UPLOAD_TOKEN is SENSITIVE, since its name is that of a secret: ${reads}`,
      "UPLOAD_TOKEN has no value: set it in app.env",
      "Found 2 variables of pages",
    ],
    questions: [],
  });
  const lines = (await Deno.readTextFile(app.at("app.env"))).split("\n");
  assertEquals(lines.slice(1), [
    `REP_SENSITIVE_PAYMENT=${secret}`,
    "# REP_SENSITIVE_UPLOAD_TOKEN=",
    "",
  ]);
  const manifest = await Deno.readTextFile(app.at(".rep.yaml"));
  assertEquals([manifest.includes(secret), manifest.includes("public")], [
    false,
    false,
  ]);
});

Deno.test("init asks before it overwrites a file, and overwrites none where it cannot ask", async () => {
  await using app = await TempDirectory.make({ "a.js": "env.VITE_A" });
  await app.write("app.env", "REP_PUBLIC_B=1\n");
  const rejection =
    'Cannot write "app.env": it exists; write another file with --env-file, or replace its content with --force';
  assertEquals(await init(app), {
    code: 1,
    out: [],
    err: [rejection],
    questions: ["Overwrite app.env?"],
  });
  const before = Array.from(Deno.readDirSync(app.path), ({ name }) => name);
  assertEquals(before.sort(), ["a.js", "app.env"]);
  const kept = await init(app, [false]);
  assertEquals(kept.out, [".rep.yaml: written", "app.env: kept"]);
  assertEquals(await Deno.readTextFile(app.at("app.env")), "REP_PUBLIC_B=1\n");
  const overwritten = await init(app, [true]);
  assertEquals(overwritten.out, [".rep.yaml: up to date", "app.env: written"]);
  await app.write("app.env", "");
  const forced = await init(app, undefined, ["--force"]);
  assertEquals([forced.out[1], forced.questions], ["app.env: written", []]);
});

Deno.test("init writes an example for an app without variables", async () => {
  await using app = await TempDirectory.make();
  const outcome = await init(app);
  assertEquals(outcome.out, [".rep.yaml: written", "app.env: written"]);
  const note = "Found 0 variables of pages; TITLE is an example";
  assertEquals(outcome.err, [note]);
  assertEquals((await validate(app)).err, ["Valid: 1 variables"]);
});

Deno.test("init says what of an env file it leaves out, and what it does not replace", async () => {
  await using app = await TempDirectory.make({
    ".env": "VITE_A=1\nnonsense\nVITE_B=${VITE_A}/b\n",
  });
  assertEquals((await init(app)).err, [
    "Warning: .env:2 is left out: expected NAME=value, a comment or a blank line",
    "Warning: .env:3 refers to another variable, which is not replaced",
    "Found 2 variables of pages",
  ]);
});

Deno.test("init writes a manifest that is valid for whatever names and values an app has", async () => {
  await using app = await TempDirectory.make({
    "a.js": "env.VITE_NULL, env.VITE_True, env.VITE_007, env.VITE_1E3",
    ".env": `VITE_NULL=1
VITE_True=a
VITE_007=b
VITE_1E3=c
VITE_ZIP=01234
VITE_TILES=https://tile.example.com/{z}/{x}.png
VITE_HOST=https://exämple.de/
VITE_SITE=https://example.com/
`,
  });
  assertEquals((await init(app)).err, ["Found 8 variables of pages"]);
  assertEquals((await validate(app)).err, ["Valid: 8 variables"]);
  const manifest = await Deno.readTextFile(app.at(".rep.yaml"));
  const lines = manifest.matchAll(/^ {2}(\S+): .*type: (\w+)/gm);
  const types = Array.from(lines, ([, name, type]) => [name, type]);
  assertEquals(types, [
    ['"007"', "string"],
    ['"1E3"', "string"],
    ["HOST", "string"],
    ['"NULL"', "number"],
    ["SITE", "url"],
    ["TILES", "string"],
    ['"True"', "string"],
    ["ZIP", "string"],
  ]);
});

Deno.test("init names a file in whose name a line ends in one line of the manifest", async () => {
  await using app = await TempDirectory.make({ "a\nb: [.js": "env.VITE_A" });
  assertEquals((await init(app)).code, 0);
  assertEquals((await validate(app)).code, 0);
});

Deno.test("init takes a dollar sign with a backslash for one that refers to nothing", async () => {
  await using app = await TempDirectory.make({ ".env": "VITE_A=a\\$b\n" });
  assertEquals((await init(app)).err, ["Found 1 variable of pages"]);
  const values = await Deno.readTextFile(app.at("app.env"));
  assertEquals(values.split("\n")[1], 'REP_PUBLIC_A="a$b"');
});

Deno.test("init rejects a directory that does not exist", async () => {
  const { code, err } = await run(["init", "/does/not/exist"]);
  assertEquals([code, err.length, err[0]?.startsWith("Cannot read DIR")], [
    1,
    1,
    true,
  ]);
});
