import { assertEquals, assertStringIncludes } from "@std/assert";
import { dirname } from "@std/path";
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
VITE_TITLE="It's $5 off"
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
      "app.tsx:1: API_URL is PUBLIC",
      "app.tsx:4: ASTRO is PUBLIC",
      "ASTRO has no value: set it in app.env",
      "app.tsx:3: FLAG is PUBLIC",
      "app.tsx:3: LIMIT is PUBLIC",
      ".env:5: ONLY_HERE is commented out, since no page reads it",
      "app.tsx:3: PLAN is PUBLIC",
      "PLAN has no value: set it in app.env",
      "app.tsx:3: SITE is PUBLIC",
      "SITE has no value: set it in app.env",
      "app.tsx:2: TITLE is PUBLIC",
      "Found 7 variables of pages",
    ],
  });
  const manifest = await Deno.readTextFile(app.at(".rep.yaml"));
  const [, declared = ""] = manifest.split("variables:\n");
  assertEquals(declared.replaceAll(`${app.path}/`, "").split("\n"), [
    "  API_URL: { tier: public, type: string, required: true } # VITE_API_URL, app.tsx:1",
    "  ASTRO: { tier: public, type: string } # PUBLIC_ASTRO, app.tsx:4",
    "  FLAG: { tier: public, type: boolean, required: true } # REACT_APP_FLAG, app.tsx:3",
    "  LIMIT: { tier: public, type: number, required: true } # VUE_APP_LIMIT, app.tsx:3",
    "  # ONLY_HERE: { tier: public, type: string, required: true } # VITE_ONLY_HERE, .env:5",
    "  PLAN: { tier: public, type: string } # NEXT_PUBLIC_PLAN, app.tsx:3",
    "  SITE: { tier: public, type: string } # NUXT_PUBLIC_SITE, app.tsx:3",
    "  TITLE: { tier: public, type: string, required: true } # VITE_TITLE, app.tsx:2",
    "",
  ]);
  const validated = await validate(app);
  assertEquals([validated.code, validated.err], [0, ["Valid: 7 variables"]]);
  const title = validated.out.find((line) => line.startsWith("TITLE"));
  assertEquals(
    title?.replace(/ +/g, " "),
    `TITLE public ${envFile(app)} It's $5 off`,
  );
});

/** A JSON Web Token with claims. */
function token(claims: object): string {
  const encode = (it: object) => btoa(JSON.stringify(it)).replaceAll("=", "");
  return `${encode({ alg: "HS256" })}.${encode(claims)}.c2lnbmF0dXJlLW9mLWl0`;
}

const GOOGLE = `AIza${"aB3-_".repeat(7)}`;
const ACCEPTED = "PUBLIC, and in accept_public, although";
const KNOWN = ": builds contain it already";
const ROTATE =
  ": rotate it, since previous builds contain it; pages read it with getSecure()";

/** What becomes of a variable that a page reads, by its name and value. */
const CHOICES: readonly (readonly [string, string, string])[] = [
  ["API_URL", "https://api.example.com", "PUBLIC"],
  ["MAPS", GOOGLE, `${ACCEPTED} the value looks like a Google API key${KNOWN}`],
  [
    "FIREBASE",
    `{"apiKey":"${GOOGLE}"}`,
    `${ACCEPTED} the value looks like a Google API key${KNOWN}`,
  ],
  [
    "MAPBOX_TOKEN",
    "pk.eyJ1IjoiZXhhbXBsZSJ9.abcdefghijklmnopqrstuv",
    `${ACCEPTED} its name is that of a secret${KNOWN}`,
  ],
  [
    "AUTH_TOKEN_URL",
    "https://auth.example.com/token",
    `${ACCEPTED} its name is that of a secret${KNOWN}`,
  ],
  [
    "STRIPE",
    "pk_live_abcdefghijklmnop1234",
    `${ACCEPTED} the value looks like a Stripe live key${KNOWN}`,
  ],
  ["STRIPE_TEST", "pk_test_abcdefghijklmnop1234", "PUBLIC"],
  [
    "SUPABASE",
    token({ iss: "supabase", role: "anon" }),
    `${ACCEPTED} the value looks like a JSON Web Token${KNOWN}`,
  ],
  ["POSTHOG", "phc_abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG", "PUBLIC"],
  [
    "SEGMENT",
    "q7Zt0XvB3mLp9RdK2sWf8JhN4cGy6TaE",
    `${ACCEPTED} the value has 5.00 bits of entropy per character${KNOWN}`,
  ],
  [
    "DSN",
    "https://0123456789abcdef0123456789abcdef@o1.ingest.sentry.io/2",
    "PUBLIC",
  ],
  [
    "SERVICE_KEY",
    token({ iss: "supabase", role: "service_role" }),
    `SENSITIVE, since the value looks like a JSON Web Token${ROTATE}`,
  ],
  [
    "PAYMENT",
    "sk_live_abcdefghijklmnop1234",
    `SENSITIVE, since the value looks like a Stripe secret key${ROTATE}`,
  ],
  [
    "BOTH",
    `${GOOGLE},sk_live_abcdefghijklmnop1234`,
    `SENSITIVE, since the value looks like a Stripe secret key${ROTATE}`,
  ],
  [
    "MAPBOX_SECRET",
    "sk.eyJ1IjoiZXhhbXBsZSJ9.abcdefghijklmnopqrstuv",
    `SENSITIVE, since the value looks like a Mapbox secret token${ROTATE}`,
  ],
  [
    "SUPABASE_SECRET",
    "sb_secret_abcdefghijklmnop1234",
    `SENSITIVE, since the value looks like a Supabase secret key${ROTATE}`,
  ],
  [
    "SENTRY_AUTH",
    "sntrys_eyJpYXQiOjE2OTk1NTU1NTUuMTIzNDU2fQ_abcdefghijklmnop",
    `SENSITIVE, since the value looks like a token for a service's API${ROTATE}`,
  ],
  [
    "GOOGLE_SECRET",
    "GOCSPX-abcdefghijklmnopqrst1234uvwx",
    `SENSITIVE, since the value looks like a token for a service's API${ROTATE}`,
  ],
  ["CLASS", "hf_a-Class-of-many-small-Words1", "PUBLIC"],
  [
    "DATABASE",
    "postgres://me:pass@db.example.com/app",
    `SENSITIVE, since the value looks like a URL with a password in it${ROTATE}`,
  ],
];

Deno.test("init makes PUBLIC what pages read, unless its value has the format of a secret, and prints each choice", async () => {
  for (const [name, value, choice] of CHOICES) {
    await using app = await TempDirectory.make({
      "a.js": `import.meta.env.VITE_${name}`,
      ".env": `VITE_${name}='${value}'\n`,
    });
    const { err } = await init(app);
    assertEquals(err[0], `a.js:1: ${name} is ${choice}`);
    const manifest = await Deno.readTextFile(app.at(".rep.yaml"));
    assertEquals(manifest.includes(value), false);
    const tier = choice.startsWith("PUBLIC") ? "public" : "sensitive";
    assertEquals(manifest.includes(`${name}: { tier: ${tier},`), true);
    assertEquals(
      manifest.includes(`accept_public: ["${name}"]`),
      choice.startsWith(ACCEPTED),
    );
    const files = ["--manifest", app.at(".rep.yaml"), "--env-file"];
    const strict = await run(["validate", ...files, envFile(app), "--strict"]);
    assertEquals([strict.code, strict.err], [0, ["Valid: 1 variables"]], name);
  }
});

Deno.test("init comments out what only env files, scripts, tests and types have, and what a build puts into HTML", async () => {
  await using app = await TempDirectory.make({
    ".env": "VITE_FILE=1\nVITE_HTML=1\nVITE_KEY=sk_live_abcdefghijklmnop1234\n",
    "vite.config.ts": "loadEnv(mode, '.').VITE_CONFIG",
    "server.js": "process.env.VITE_SERVER, process.env['VITE_QUOTED']",
    "index.html": "<title>%VITE_HTML%</title><script>env.VITE_INLINE</script>",
  });
  const sources = {
    "scripts/a.mjs": "env.VITE_SCRIPT",
    "src/a.test.ts": "env.VITE_TEST",
    "src/__tests__/a.ts": "env.VITE_TESTS",
    "e2e/a.ts": "env.VITE_E2E",
    "src/vite-env.d.ts": "VITE_TYPE: string",
    "src/scripts/a.ts": "env.VITE_PAGE, env.VITE_HTML",
    "src/config.ts": "env.VITE_TOO; process.env.REACT_APP_CRA",
  };
  for (const [name, text] of Object.entries(sources)) {
    await Deno.mkdir(app.at(dirname(name)), { recursive: true });
    await app.write(name, text);
  }
  const { err } = await init(app);
  const html =
    "commented out, since the build puts it into HTML (VITE_HTML, index.html:1); expected a script that sets it there";
  assertEquals(err.includes(`src/scripts/a.ts:1: HTML is ${html}`), true);
  const manifest = await Deno.readTextFile(app.at(".rep.yaml"));
  const names = (pattern: RegExp) =>
    Array.from(manifest.matchAll(pattern), ([, name]) => name);
  assertEquals(names(/^ {2}(\w+): \{/gm), ["CRA", "INLINE", "PAGE", "TOO"]);
  assertEquals(names(/^ {2}# (\w+): \{/gm), [
    "CONFIG",
    "E2E",
    "FILE",
    "HTML",
    "KEY",
    "QUOTED",
    "SCRIPT",
    "SERVER",
    "TEST",
    "TESTS",
    "TYPE",
  ]);
  assertEquals((await validate(app)).code, 0);
});

/** What does not make a variable one of pages: the source, and its text. */
const UNREAD: readonly (readonly [file: string, text: string])[] = [
  ["src/a.ts", "// import.meta.env.VITE_A"],
  ["src/a.ts", "const a = 1; // import.meta.env.VITE_A"],
  ["src/a.ts", "/**\n * Reads import.meta.env.VITE_A\n */"],
  ["src/a.ts", "const url = 'https://example.com'; /* env.VITE_A */"],
  ["src/a.tsx", "<p>{/* import.meta.env.VITE_A */}</p>"],
  ["src/a.ts", "/* a \\*/ 'b'; /* VITE_A */"],
  ["src/a.vue", "<template><!-- env.VITE_A --></template>"],
  ["index.html", "<!-- VITE_A -->"],
  ["src/hooks.server.ts", "import.meta.env.VITE_A"],
  ["src/routes/+page.server.ts", "import.meta.env.VITE_A"],
  ["src/routes/api/+server.ts", "import.meta.env.VITE_A"],
  ["src/lib/server/db.ts", "import.meta.env.VITE_A"],
  ["server/main.ts", "import.meta.env.VITE_A"],
  ["src/setupTests.ts", "import.meta.env.VITE_A"],
  ["src/a.story.tsx", "import.meta.env.VITE_A"],
];

/** What does, although it looks similar. */
const READ_BY_PAGES: readonly (readonly [file: string, text: string])[] = [
  ["src/a.ts", "const url = `https://${import.meta.env.VITE_A}/a`;"],
  ["src/a.ts", "const all = '/api/*'; import.meta.env.VITE_A; // */"],
  ["src/a.ts", "const all = `/api/*`; import.meta.env.VITE_A; // */"],
  ["src/a.ts", 'const a = "a \\" // "; import.meta.env.VITE_A'],
  ["src/a.ts", "// a comment\nimport.meta.env.VITE_A"],
  ["src/a.ts", "read('VITE_A')"],
  ["src/a.ts", "/[/*]/.test(import.meta.env.VITE_A)"],
  ["src/a.ts", "/[^/*]\\/*/.test(import.meta.env.VITE_A)"],
  ["src/a.ts", "`${a}/**/${import.meta.env.VITE_A}`"],
  ["src/a.tsx", "<p>Calls of /api/* go {import.meta.env.VITE_A}</p>; /* */"],
  ["src/a.ts", "/^[\\w./*-]+$/.test(import.meta.env.VITE_A); /* */"],
  ["src/a.vue", "<input accept=image/*>{{ env.VITE_A }}<!-- */ -->"],
  ["src/a.ts", "/[\"']/g; f('a//b'); import.meta.env.VITE_A"],
  ["src/a.vue", "<style>a{b:url(//c)}</style>{{ env.VITE_A }}"],
  ["src/a.ts", `${"/* ".repeat(200_000)} VITE_A`],
  ["src/a.ts", `a("${"A".repeat(999_900)}", "VITE_A")`],
  ["src/a.ts", `"${"\\\\".repeat(499_900)}"; env.VITE_A`],
  ["src/a.ts", `a("${"A".repeat(20_000_000)}", "VITE_A")`],
  ["src/a.tsx", '<a href="//a">Don\'t</a>; import.meta.env.VITE_A'],
  ["src/server/a.ts", "import.meta.env.VITE_A"],
];

/** Returns the lines of init for VITE_A. */
async function choiceOf(file: string, text: string): Promise<string[]> {
  await using app = await TempDirectory.make({ ".env": "VITE_A=1\n" });
  await Deno.mkdir(app.at(dirname(file)), { recursive: true });
  await app.write(file, text);
  return (await init(app)).err.slice(0, -1);
}

Deno.test("init comments out what only comments and code of servers name", async () => {
  for (const [file, text] of UNREAD) {
    const [choice = ""] = await choiceOf(file, text);
    const end = "A is commented out, since no page reads it";
    assertEquals(choice.endsWith(end), true, text);
  }
  for (const [file, text] of READ_BY_PAGES) {
    const line = text.slice(0, text.indexOf("VITE_A")).split("\n").length;
    assertEquals(await choiceOf(file, text), [`${file}:${line}: A is PUBLIC`]);
  }
});

Deno.test("init names placeholders in comments of HTML, which a build replaces", async () => {
  for (const text of ["<!-- %VITE_A% -->", "<!-- <%- VITE_A %> -->"]) {
    const [choice] = await choiceOf("index.html", text);
    assertEquals(choice?.includes("the build puts it into HTML"), true, text);
  }
});

/** Configurations, and whether they set VITE_A for builds. */
const BUILD_CONFIGS: readonly (readonly [text: string, sets: boolean])[] = [
  ["process.env.VITE_A = version", true],
  ["process.env['VITE_A'] ??= `1`", true],
  ['define: { "import.meta.env.VITE_A": JSON.stringify(version) }', true],
  ["define: { [`import.meta.env.VITE_A`]: '1' }", true],
  ["define: { 'process.env.VITE_A': '1' }", false],
  ["if (process.env.VITE_A === '1') {}", false],
  ["isDev ? process.env['VITE_A'] : ''", false],
  ["loadEnv(mode, '.').VITE_A", false],
  ["test: { env: { VITE_A: '1' } }", false],
  ["// process.env.VITE_A = version", false],
];

Deno.test("init leaves to the build what its configuration or npm sets", async () => {
  for (const [text, sets] of BUILD_CONFIGS) {
    await using app = await TempDirectory.make({
      "a.ts": "import.meta.env.VITE_A",
      "vite.config.ts": `\n${text}`,
      ".env": "VITE_A=1\n",
    });
    const choice = sets
      ? "commented out, since a script sets it for builds (VITE_A, vite.config.ts:2)"
      : "PUBLIC";
    assertEquals((await init(app)).err[0], `a.ts:1: A is ${choice}`, text);
  }
  for (const value of ["$npm_package_version", "v${npm_package_version}"]) {
    await using app = await TempDirectory.make({
      "a.ts": "import.meta.env.VITE_A",
      ".env": `VITE_A=${value}\n`,
    });
    assertEquals(
      (await init(app)).err[1],
      "a.ts:1: A is commented out, since a script sets it for builds (VITE_A, .env:1)",
    );
  }
});

Deno.test("init makes PUBLIC what Nuxt reads from env files for pages", async () => {
  await using app = await TempDirectory.make({
    "nuxt.config.ts": "runtimeConfig: { public: { apiUrl: '' } }",
    "app.vue": "useRuntimeConfig().public.apiUrl",
    ".env": "NUXT_PUBLIC_API_URL=https://example.com\nNUXT_SECRET=1\n",
  });
  assertEquals((await init(app)).err, [
    ".env:1: API_URL is PUBLIC",
    "Found 1 variables of pages",
  ]);
});

Deno.test("init writes a file for each mode, as Vite reads it; what only some machines or modes have is not required", async () => {
  await using app = await TempDirectory.make({
    "a.js":
      "env.VITE_A, env.VITE_B, env.VITE_C, env.VITE_D, env.VITE_E, env.VITE_N",
    ".env": "VITE_A=1\nVITE_B=1\nVITE_C=1\nVITE_D=1\nVITE_N=1\n",
    ".env.local": "VITE_B=2\nVITE_C=2\nVITE_D=2\nVITE_E=2\n",
    ".env.production": "VITE_C=3\nVITE_D=3\nVITE_N=none\n",
    ".env.production.local": "VITE_D=4\n",
    ".env.qa-2": "VITE_A=\n",
    ".env.example": "VITE_A=example\n",
  });
  const { out, err } = await initAndSteps(app);
  assertEquals(out, [
    ".rep.yaml: written",
    "app.development.env: written",
    "app.production.env: written",
    "app.qa-2.env: written",
  ]);
  const valuesOf = async (mode: string) =>
    (await Deno.readTextFile(app.at(`app.${mode}.env`)))
      .replaceAll("REP_PUBLIC_", "").trim().split("\n").slice(1).join(" ");
  assertEquals(await valuesOf("development"), "A=1 B=2 C=2 D=2 E=2 N=1");
  assertEquals(await valuesOf("production"), "A=1 B=2 C=3 D=4 E=2 N=none");
  assertEquals(await valuesOf("qa-2"), "A= B=2 C=2 D=2 E=2 N=1");
  const manifest = await Deno.readTextFile(app.at(".rep.yaml"));
  const required = manifest.matchAll(/^ {2}(\w+): .*required/gm);
  assertEquals(Array.from(required, ([, name]) => name).join(""), "BCDN");
  assertEquals(/ N: .* type: string/.test(manifest), true);
  const steps = err.at(-1) ?? "";
  assertStringIncludes(steps, "add app.*.env to .gitignore");
  assertStringIncludes(
    steps,
    'defineConfig(({ mode }) => ({ plugins: [rep({ manifest: ".rep.yaml", envFile: `app.${mode}.env`, env: true })] }))',
  );
});

Deno.test("init names the schema for editors in the first line, as docs/variables.md does", async () => {
  await using app = await TempDirectory.make({ "a.js": "env.VITE_A" });
  await init(app);
  const [line] = (await Deno.readTextFile(app.at(".rep.yaml"))).split("\n");
  const page = await Deno.readTextFile("docs/variables.md");
  assertStringIncludes(
    page,
    `as \`init\` does:\n\n\`\`\`yaml\n${line}\n\`\`\``,
  );
});

Deno.test("init overwrites a file only with --force", async () => {
  await using app = await TempDirectory.make({ "a.js": "env.VITE_A" });
  await app.write("app.env", "REP_PUBLIC_B=1\n");
  const rejection =
    'Cannot write "app.env": it exists; write another file with -env-file, or replace its content with --force';
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

/** What becomes of the values of an env file, and what is named. */
const EXPANSIONS: readonly (readonly [string, string, string[]])[] = [
  ["HOST=h\nVITE_A=https://${HOST}/$HOST", "https://h/h", []],
  ["VITE_A=${VITE_B}/a\nVITE_B=${HOST}\nHOST=h", "h/a", []],
  ["VITE_A=${NONE:-x}${NONE-y}", "xy", []],
  ["HOST=h\nVITE_A=${NONE:-${HOST}}", "h", []],
  ["VITE_A=a$NONE", "a", ["$NONE"]],
  ["VITE_A=${NONE}/a", "/a", ["${NONE}"]],
  ["VITE_A=$VITE_A", "", ["$VITE_A"]],
  ["VITE_A=${NONE:+a}", "", ["${NONE:+a}"]],
  ["VITE_A=a\\$b", '"a$b"', []],
  ["VITE_A=$5", '"$5"', []],
  ["VITE_A=1\nnonsense\nVITE_A=2", "2", []],
  ["export VITE_A = '#a' # b", '"#a"', []],
];

Deno.test("init expands what values refer to, and names what nothing sets", async () => {
  for (const [text, value, references] of EXPANSIONS) {
    await using app = await TempDirectory.make({ "a.js": "env.VITE_A" });
    await app.write(".env", text);
    const { err } = await init(app);
    const warnings = references.map((reference) =>
      `Warning: VITE_A refers to ${reference}, which no env file sets`
    );
    assertEquals(err.filter((line) => line.startsWith("Warning")), warnings);
    const lines = (await Deno.readTextFile(envFile(app))).split("\n");
    const line = lines.find((line) => line.includes("_A="));
    assertEquals(line, `REP_PUBLIC_A=${value}`);
  }
});

Deno.test("init writes a manifest that is valid for whatever names and values an app has", async () => {
  await using app = await TempDirectory.make({
    "a.js":
      "VITE_NULL VITE_True VITE_007 VITE_1E3 VITE_ZIP VITE_TILES VITE_HOST VITE_SITE",
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
  assertEquals(
    (await init(app)).err.at(-1),
    "Found 8 variables of pages",
  );
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

/** What is found of one variable with a configuration of Vite: its line in the manifest, or nothing. */
const CONFIGURED: readonly (readonly [
  config: string,
  source: string,
  env: string,
  declared: string[],
])[] = [
  ["envPrefix: 'APP_'", "import.meta.env.APP_A", "", ["A"]],
  ['envPrefix: "APP_"', "import.meta.env['APP_A']", "", ["A"]],
  ['"envPrefix": `APP_`', "import.meta.env?.APP_A", "", ["A"]],
  ["envPrefix: ['APP_']", "(import.meta.env as any).APP_A", "APP_A=1", ["A"]],
  [
    "envPrefix: [\n  'VITE_',\n  'APP_',\n]",
    "import.meta.env.APP_A, import.meta.env.VITE_B",
    "",
    ["APP_A", "B"],
  ],
  ["envPrefix: ['APP_', 'VITE_']", "import.meta.env.VITE_B", "", ["VITE_B"]],
  [
    "envPrefix: ['VITE_', 'PUBLIC_']",
    "import.meta.env.VITE_PUBLIC_A, import.meta.env.PUBLIC_A",
    "",
    ["PUBLIC_A", "VITE_PUBLIC_A"],
  ],
  ["", "import.meta.env.VITE_VITE_A", "", ["VITE_VITE_A"]],
  [
    "envPrefix: 'APP_'",
    "const { APP_A, APP_B } = import.meta.env; const APP_C = 1",
    "APP_A=1\nAPP_B=",
    ["A", "B"],
  ],
  ["envPrefix: 'APP_'", "process.env.APP_A", "", []],
  ["// envPrefix: 'APP_'", "import.meta.env.APP_A", "", []],
  ["envPrefix: ['VITE_', 'TAURI_ENV_*']", "env.VITE_A", "", ["A"]],
  ["", "import.meta.env['PUBLIC_A'], import.meta.env?.PUBLIC_B", "", [
    "A",
    "B",
  ]],
  ["", "const { PUBLIC_A } = import.meta.env", "PUBLIC_A=1", ["A"]],
];

Deno.test("init finds names with the prefixes of Vite's configuration, and keeps every prefix but the first", async () => {
  for (const [config, source, env, declared] of CONFIGURED) {
    for (const file of ["vite.config.ts", "vite.config.mjs"]) {
      await using app = await TempDirectory.make({
        "a.ts": source,
        ".env": env,
        [file]: `export default defineConfig({\n  ${config}\n})`,
      });
      assertEquals((await init(app)).code, 0);
      const manifest = await Deno.readTextFile(app.at(".rep.yaml"));
      const names = Array.from(manifest.matchAll(/^ {2}(\w+): .*\.ts:/gm))
        .map(([, name]) => name);
      assertEquals(names, declared, config);
    }
  }
});

/** The folder of the env file by Vite's configuration; none if it cannot be told. */
const ENV_DIRS: readonly (readonly [config: string, folder?: string])[] = [
  ["envDir: '../'", "."],
  ['envDir: ".."', "."],
  ["envDir: path.resolve(__dirname, '..')", "."],
  ["envDir: resolve(\n  import.meta.dirname,\n  '..',\n  'env',\n)", "env"],
  ["envDir: fileURLToPath(new URL('../env', import.meta.url))", "env"],
  ["envDir: process.cwd()", "app"],
  ["root: 'client'", "app/client"],
  ["root: 'client', envDir: '..'", "app"],
  ["test: { root: 'none' }", "app"],
  ["envDir: folder"],
  ["envDir: mode === 'production' ? 'a' : 'b'"],
];

Deno.test("init reads env files where Vite's configuration says, and says if it cannot tell", async () => {
  for (const [config, folder = "app"] of ENV_DIRS) {
    await using root = await TempDirectory.make();
    await Deno.mkdir(root.at("app/client"), { recursive: true });
    await Deno.mkdir(root.at("env"));
    await root.write("app/client/a.js", "env.VITE_A");
    await root.write("app/vite.config.js", `export default {\n  ${config}\n}`);
    await root.write(`${folder}/.env`, "VITE_A=found\n");
    const files = ["--manifest", root.at(".rep.yaml"), "--env-file"];
    const { err } = await run([
      ...["init", root.at("app"), ...files],
      envFile(root),
    ]);
    const text = await Deno.readTextFile(envFile(root));
    assertEquals(text.includes("REP_PUBLIC_A=found"), true, config);
    const isUnknown = err.some((line) => line.includes("Cannot read envDir"));
    assertEquals(isUnknown, /envDir: (?:folder|mode)/.test(config), config);
  }
});

Deno.test("init leaves to the build what a script sets for it, and writes a file for each mode of a script", async () => {
  await using app = await TempDirectory.make({
    "a.js": "env.VITE_SHA, env.VITE_URL, env.VITE_TEST, env.VITE_WIN",
    ".env.production": "VITE_URL=https://example.com\n",
    "package.json": JSON.stringify({
      scripts: {
        "//": ["a comment"],
        build: "cross-env VITE_SHA=$(git rev-parse HEAD) vite build",
        "build:win": "set VITE_WIN=1&& vite build --mode=qa",
        dev: "vite -m local-1",
        test: "VITE_TEST=1 vitest",
      },
    }),
  });
  const { out, err } = await init(app);
  assertEquals(out, [
    ".rep.yaml: written",
    "app.development.env: written",
    "app.production.env: written",
    "app.qa.env: written",
    "app.local-1.env: written",
  ]);
  const why = "commented out, since a script sets it for builds (VITE_";
  assertEquals(err.filter((line) => line.startsWith("a.js:")), [
    `a.js:1: SHA is ${why}SHA, package.json: build)`,
    "a.js:1: TEST is PUBLIC",
    "a.js:1: URL is PUBLIC",
    `a.js:1: WIN is ${why}WIN, package.json: build:win)`,
  ]);
});

Deno.test("init reads no examples of env files, no directories and broken links with such names, and no byte order mark", async () => {
  await using app = await TempDirectory.make({
    "a.js": "env.VITE_A",
    ".env": "\uFEFFexport VITE_A='one'\r\nVITE_B=2\r\n",
  });
  const others = [".TEMPLATE", ".Example", ".examples", ".keys", ".backup"];
  for (const name of others) await app.write(`.env${name}`, "VITE_A=wrong\n");
  await Deno.mkdir(app.at(".env.local"));
  await Deno.symlink("nowhere", app.at(".env.production"));
  const { out } = await init(app);
  assertEquals(out, [".rep.yaml: written", "app.env: written"]);
  const text = await Deno.readTextFile(envFile(app));
  assertEquals(text.includes("REP_PUBLIC_A=one\n"), true);
});

Deno.test("init names the example of an env file if there is no env file", async () => {
  for (const name of [".env.example", ".env.TEMPLATE", ".env.sample"]) {
    await using app = await TempDirectory.make({ "a.js": "env.VITE_A" });
    await app.write(name, "VITE_A=\n");
    const { err } = await init(app);
    assertEquals(
      err[0],
      `Warning: There is no env file: expected a copy of "${name}", such as .env; then run init again, with --force`,
    );
    await app.write(".env", "VITE_A=1\n");
    const next = await init(app, ["--force"]);
    assertEquals(next.err[0], "a.js:1: A is PUBLIC");
  }
});

Deno.test("init takes no template in HTML, no story and no configuration of Vite for a page", async () => {
  const other = "env.VITE_A";
  const places = {
    "index.html": "<title><%= VITE_A %></title><% if (VITE_A) { %>",
    "vite.config.dev.mts": other,
    "config/vite.config.ts": other,
    "src/a.stories.tsx": other,
  };
  for (const [path, text] of Object.entries(places)) {
    await using app = await TempDirectory.make({ ".env": "VITE_A=1\n" });
    await Deno.mkdir(dirname(app.at(path)), { recursive: true });
    await app.write(path, text);
    const { err } = await init(app);
    assertEquals(err[0]?.includes("commented out"), true, path);
  }
});
