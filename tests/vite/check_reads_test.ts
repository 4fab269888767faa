/** Warnings about reads of `import.meta.env`. `real_runtime_env_test.ts` shows some in Vite itself, which needs npm. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import type { RepOptions } from "../../src/vite/mod.ts";
import { makeProject, OPTIONS, pluginsOf } from "./_project.ts";

const MANIFEST = `version: "0.1.0"
variables:
  TITLE: { tier: public }
  VITE_PLAN: { tier: public }
  MAP_KEY: { tier: sensitive }
  TOKEN: { tier: server }
`;
const LIVE: RepOptions = { ...OPTIONS, env: true };

/** A project with this manifest, whose modules are checked as Vite would do it. */
async function checkedProject(
  options = LIVE,
  config: Record<string, unknown> = {},
  manifest = MANIFEST,
) {
  const project = await makeProject({ ".rep.yaml": manifest });
  const [, plugin] = pluginsOf(options);
  const env = { DEV: true, VITE_OWN: "own" };
  const define = { "import.meta.env.VITE_COMMIT": '"abc"' };
  const resolved = { env, define, isWorker: false, ...config };
  plugin.configResolved({ ...project.configOf(), ...resolved });
  return {
    project,
    /** Returns what is printed about a module. */
    async check(code: string, name = "src/main.ts") {
      await plugin.transform(code, project.at(name));
      return project.printed.splice(0);
    },
    [Symbol.asyncDispose]: () => project[Symbol.asyncDispose](),
  };
}

/** The warning about a read of an undeclared name. */
function undeclared(place: string, name: string, hint = "") {
  return `[rep] ${place}: import.meta.env.${name} is undefined: neither the manifest nor Vite declares it${hint}`;
}

Deno.test("a read of a name that neither the manifest nor Vite declares is a warning, with file, line and suggestion", async () => {
  await using checked = await checkedProject();
  const code = `const a = import.meta.env.VITE_TITLE;
const b = import.meta.env.VITE_TITEL + import.meta.env.VITE_OWN;
const c = import.meta.env.VITE_COMIT;
const d = import.meta.env.VITE_OTHER;
`;
  assertEquals(await checked.check(code), [
    undeclared("src/main.ts:2", "VITE_TITEL", "; did you mean VITE_TITLE?"),
    undeclared("src/main.ts:3", "VITE_COMIT", "; did you mean VITE_COMMIT?"),
    undeclared("src/main.ts:4", "VITE_OTHER"),
  ]);
  // Once for each place.
  assertEquals(await checked.check(code), []);
  assertEquals(await checked.check(`${code}import.meta.env.VITE_OTHER;`), [
    undeclared("src/main.ts:5", "VITE_OTHER"),
  ]);
});

Deno.test("what the manifest, Vite's env files or define declare is no warning, and neither is a name without a prefix", async () => {
  await using checked = await checkedProject();
  const reads = ["VITE_TITLE", "VITE_PLAN", "VITE_OWN", "VITE_COMMIT", "DEV"]
    .concat("SSR", "OTHER", "vite_other");
  for (const name of reads) {
    assertEquals(await checked.check(`import.meta.env.${name};`), []);
  }
});

Deno.test("every way to read by name is found, and no computed read, text or comment", async () => {
  await using checked = await checkedProject();
  const names = async (code: string, file?: string) => {
    const printed = await checked.check(code, file);
    return printed.map((text) => /:(\d+: .*?) is /.exec(text)?.[1]);
  };
  const read = (line: number, name: string) =>
    `${line}: import.meta.env.VITE_${name}`;
  assertEquals(
    await names(`import.meta.env?.VITE_A; import.meta.env["VITE_B"];
import.meta.env?.['VITE_C']; import.meta
  .env; import.meta.env
  .VITE_D;
const {
  VITE_E,
  VITE_F: f = "default", MODE, ...rest
} = import.meta.env;
const url = \`https://\${import.meta.env.VITE_G}/a\`; // import.meta.env.VITE_NO
const relative = \`//\${import.meta.env.VITE_H}/a\`;
`),
    [
      read(1, "A"),
      read(1, "B"),
      read(2, "C"),
      read(3, "D"),
      read(6, "E"),
      read(7, "F"),
      read(9, "G"),
      read(10, "H"),
    ],
  );
  assertEquals(
    await names(
      `(import.meta.env as any).VITE_A; (import.meta as any).env.VITE_B;
(import.meta.env as Record<string, string>)["VITE_C"]; import.meta.env!.VITE_D;
const { VITE_E } = (import.meta as { env: Env }).env; (import.meta.env as any)[name];
const { VITE_F } = import.meta.env as Env; (f(import.meta.env) as Env).VITE_NO;
`,
      "src/casts.ts",
    ),
    [
      read(1, "A"),
      read(1, "B"),
      read(2, "C"),
      read(2, "D"),
      read(3, "E"),
      read(4, "F"),
    ],
  );
  assertEquals(
    await names(`// import.meta.env.VITE_A
/* import.meta.env.VITE_A
 * import.meta.env.VITE_A */
"import.meta.env.VITE_A"; 'it\\'s import.meta.env.VITE_A';
import.meta.env[name]; import.meta.env[\`VITE_\${name}\`];
const { VITE_A } = import.meta.env.VITE_OWN; const { VITE_B } = other;
`),
    [],
  );
  assertEquals(
    await names(
      '<!-- import.meta.env.VITE_A -->\n<a href="{import.meta.env.VITE_A}">Don\'t</a>',
      "src/App.svelte",
    ),
    [read(2, "A")],
  );
});

Deno.test("modules of packages and parts of modules are not checked, but workers of the development server are", async () => {
  await using checked = await checkedProject();
  const code = "import.meta.env.VITE_A;";
  for (
    const name of [
      "node_modules/a/index.js",
      "src/App.vue?vue&type=script&lang.ts",
      "\0virtual:a",
    ]
  ) {
    assertEquals(await checked.check(code, name), []);
  }
  const worker = "src/worker.ts?worker_file&type=module";
  assertEquals(await checked.check(code, worker), [
    undeclared("src/worker.ts:1", "VITE_A"),
  ]);
});

Deno.test("reads are compared with envPrefix", async () => {
  await using checked = await checkedProject(LIVE, { envPrefix: ["APP_"] });
  assertEquals(
    await checked.check(
      "import.meta.env.APP_TITLE; import.meta.env.APP_A; import.meta.env.VITE_A;",
    ),
    [undeclared("src/main.ts:1", "APP_A")],
  );
});

Deno.test("nothing is said without a manifest, with mistakes in it, or in Vitest", async () => {
  const code = "import.meta.env.VITE_A;";
  await using without = await checkedProject({ env: true });
  assertEquals(await without.check(code), []);
  await using invalid = await checkedProject(LIVE, {}, "oops");
  assertEquals(await invalid.check(code), []);
  const plugins = [{ name: "vitest" }];
  await using tested = await checkedProject(LIVE, { plugins });
  assertEquals(await tested.check(code), []);
});

Deno.test("the manifest is compared as it is now", async () => {
  await using checked = await checkedProject();
  const { project } = checked;
  await project.write(".rep.yaml", `${MANIFEST}  A: { tier: public }\n`);
  assertEquals(await checked.check("import.meta.env.VITE_A;"), []);
});

Deno.test("without env: true, a read of a PUBLIC variable says how to get its value", async () => {
  await using checked = await checkedProject(OPTIONS);
  const code =
    "import.meta.env.VITE_TITLE; import.meta.env.VITE_TITEL; import.meta.env.VITE_OWN;";
  assertEquals(await checked.check(code), [
    '[rep] src/main.ts:1: import.meta.env.VITE_TITLE is undefined: expected env: true in rep(), or get("TITLE")',
    undeclared("src/main.ts:1", "VITE_TITEL", "; did you mean VITE_TITLE?"),
  ]);
  await using ofVite = await checkedProject(OPTIONS, {
    env: { VITE_TITLE: "own" },
  });
  assertEquals(await ofVite.check("import.meta.env.VITE_TITLE;"), []);
});

Deno.test("a read of a SENSITIVE or SERVER variable is a warning with both remedies, and so is a value that Vite itself has", async () => {
  const remedy = (expected: string, name: string) =>
    `expected ${expected}; or, if everyone may know it, a PUBLIC variable, with acceptPublic: ["${name}"] if it looks like a secret`;
  const code = "import.meta.env.VITE_MAP_KEY;\nimport.meta.env.VITE_TOKEN;";
  await using checked = await checkedProject();
  assertEquals(await checked.check(code), [
    `[rep] src/main.ts:1: import.meta.env.VITE_MAP_KEY is undefined, and MAP_KEY is SENSITIVE: ${
      remedy('getSecure("MAP_KEY")', "MAP_KEY")
    }`,
    `[rep] src/main.ts:2: import.meta.env.VITE_TOKEN is undefined, and TOKEN is SERVER: ${
      remedy('getPrivate("TOKEN") of a gateway on the server', "TOKEN")
    }`,
  ]);
  await using ofVite = await checkedProject(OPTIONS, {
    env: { VITE_MAP_KEY: "of-this-machine" },
  });
  const [printed = ""] = await ofVite.check(code);
  assertStringIncludes(
    printed,
    "VITE_MAP_KEY is Vite's own value, which everyone can read, and MAP_KEY is SENSITIVE: expected ",
  );
});

Deno.test("a worker that reads a variable is named at the build, once, with what it gets", async () => {
  await using checked = await checkedProject();
  const { project } = checked;
  let [, plugin] = pluginsOf(LIVE);
  const code = "import.meta.env.VITE_TITLE;";
  const name = project.at("src/worker.ts");
  for (const _worker of ["first", "second"]) {
    const plugins = plugin.config().worker.plugins();
    [plugin] = plugins as [typeof plugin];
    plugin.configResolved(project.configOf({ isWorker: true }));
    await plugin.transform(code, name);
  }
  assertEquals(project.printed, [
    "[rep] src/worker.ts:1: import.meta.env.VITE_TITLE is undefined in workers: expected the page to send the value",
  ]);
});
