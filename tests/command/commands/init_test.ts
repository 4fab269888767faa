import { assertEquals } from "@std/assert";
import { TempDirectory } from "../../_temp.ts";
import { failed, type Outcome, run } from "./_run.ts";

/** Runs init for an app, and returns what it prints, without the path of the app and what is left to do. */
async function init(
  app: TempDirectory,
  options: readonly string[] = [],
): Promise<Outcome> {
  const { code, out, err } = await initAndSteps(app, options);
  return { code, out, err: err.filter((text) => !text.startsWith("Next")) };
}

async function initAndSteps(
  app: TempDirectory,
  options: readonly string[] = [],
): Promise<Outcome> {
  const files = ["--manifest", app.at(".rep.yaml"), "--env-file", envFile(app)];
  const outcome = await run(["init", app.path, ...files, ...options]);
  const text = JSON.stringify(outcome);
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
  });
  const manifest = await Deno.readTextFile(app.at(".rep.yaml"));
  const [, declared = ""] = manifest.split("variables:\n");
  assertEquals(declared.replaceAll(`${app.path}/`, "").split("\n"), [
    "  API_URL: { tier: public, type: string, required: true } # VITE_API_URL, app.tsx:1",
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

Deno.test("init overwrites a file only with --force", async () => {
  await using app = await TempDirectory.make({ "a.js": "env.VITE_A" });
  await app.write("app.env", "REP_PUBLIC_B=1\n");
  const rejection =
    'Cannot write "app.env": it exists; write another file with --env-file, or replace its content with --force';
  assertEquals(await init(app), failed(rejection));
  const before = Array.from(Deno.readDirSync(app.path), ({ name }) => name);
  assertEquals(before.sort(), ["a.js", "app.env"]);
  assertEquals(
    await Deno.readTextFile(app.at("app.env")),
    "REP_PUBLIC_B=1\n",
  );
  const forced = await init(app, ["--force"]);
  assertEquals(forced.out, [".rep.yaml: written", "app.env: written"]);
  assertEquals((await init(app)).code, 0); // nothing would change
});

Deno.test("init writes an example for an app without variables", async () => {
  await using app = await TempDirectory.make();
  const outcome = await init(app);
  assertEquals(outcome.out, [".rep.yaml: written", "app.env: written"]);
  const note = "Found 0 variables of pages";
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
    ["SITE", "string"],
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
  assertEquals((await init(app)).err, ["Found 1 variables of pages"]);
  const values = await Deno.readTextFile(app.at("app.env"));
  assertEquals(values.split("\n")[1], 'REP_PUBLIC_A="a$b"');
});

Deno.test("init finds the variables of the workspace's packages that an app uses, and their values in its root", async () => {
  await using root = await TempDirectory.make();
  const folders = [
    "apps/web",
    "packages/ui",
    "packages/core",
    "packages/other",
    "node_modules/react",
  ];
  for (const folder of folders) {
    await Deno.mkdir(root.at(folder), { recursive: true });
    const name = folder.replace(/.*\//, "").toUpperCase();
    await root.write(`${folder}/a.ts`, `import.meta.env.VITE_${name}`);
  }
  const installed = { ui: "1", react: "1", absent: "1" };
  const packages = {
    ".": { workspaces: ["apps/*", "packages/*"] },
    "apps/web": { dependencies: installed },
    "packages/ui": { devDependencies: { core: "1" } },
    "packages/core": { dependencies: { ui: "1" } },
  };
  for (const [folder, content] of Object.entries(packages)) {
    await root.write(`${folder}/package.json`, JSON.stringify(content));
  }
  for (const name of ["ui", "core", "other"]) {
    await Deno.symlink(`../packages/${name}`, root.at(`node_modules/${name}`));
  }
  await root.write(".env", "VITE_UI=root\nVITE_WEB=root\nVITE_ADMIN=root\n");
  await root.write("apps/web/.env", "VITE_WEB=web\n");
  const env = root.at("app.env");
  const files = ["--manifest", root.at(".rep.yaml"), "--env-file", env];
  const { code } = await run(["init", root.at("apps/web"), ...files]);
  const [, ...values] = (await Deno.readTextFile(env)).split("\n");
  assertEquals([code, values], [0, [
    "# REP_PUBLIC_CORE=",
    "REP_PUBLIC_UI=root",
    "REP_PUBLIC_WEB=web",
    "",
  ]]);
});

Deno.test("init reads the sources and env files of an app whose package.json is invalid, or cannot be read", async () => {
  await using app = await TempDirectory.make({
    "package.json": "{",
    "a.js": "env.VITE_A",
  });
  assertEquals((await init(app)).code, 0);
  await Deno.remove(app.at("package.json"));
  await Deno.mkdir(app.at("package.json"));
  assertEquals((await init(app)).code, 0);
});

const SCHEMA = "node_modules/@rep/gateway/schema";

Deno.test("init names the schema of the installed package for editors, also if a parent has it", async () => {
  await using root = await TempDirectory.make();
  await Deno.mkdir(root.at("apps/web"), { recursive: true });
  async function firstLine(manifest: string): Promise<string | undefined> {
    const files = [
      "--manifest",
      root.at(manifest),
      "--env-file",
      envFile(root),
    ];
    await run(["init", root.at("apps"), ...files, "--force"]);
    return (await Deno.readTextFile(root.at(manifest))).split("\n")[0];
  }
  const plain =
    "# The variables of the app: names, tiers and types. Their values are elsewhere.";
  assertEquals(await firstLine(".rep.yaml"), plain);
  await Deno.mkdir(root.at(SCHEMA), { recursive: true });
  await root.write(`${SCHEMA}/rep.schema.json`, "{}");
  const comment = "# yaml-language-server: $schema=";
  assertEquals(
    await firstLine(".rep.yaml"),
    `${comment}./${SCHEMA}/rep.schema.json`,
  );
  assertEquals(
    await firstLine("apps/web/.rep.yaml"),
    `${comment}../../${SCHEMA}/rep.schema.json`,
  );
});

Deno.test("init says what is left to do, with paths from the app", async () => {
  await using root = await TempDirectory.make();
  await Deno.mkdir(root.at("app"));
  const manifest = root.at(".rep.yaml");
  const files = ["--manifest", manifest, "--env-file", envFile(root)];
  const { err } = await run(["init", root.at("app"), ...files]);
  assertEquals(
    err.at(-1),
    `Next: add ${envFile(root)} to .gitignore, and run npm install @rep/gateway
With Vite, add this to its configuration; otherwise, read values with get() from @rep/gateway/client:
  import { rep } from "@rep/gateway/vite";
  plugins: [rep({ manifest: "../.rep.yaml", envFile: "../app.env", env: true })]`,
  );
});

Deno.test("init rejects a directory that does not exist", async () => {
  const { code, err } = await run(["init", "/does/not/exist"]);
  assertEquals([code, err.length, err[0]?.startsWith("Cannot read DIR")], [
    1,
    1,
    true,
  ]);
});
