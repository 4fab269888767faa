/** `env: true` with a double of Vite. `real_runtime_env_test.ts` shows the same in Vite itself, which needs npm. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { delay } from "@std/async/delay";
import { toFileUrl } from "@std/path";
import { rep, type RepOptions } from "../../src/vite/mod.ts";
import { runtimeEnv } from "../../src/vite/runtime_env.ts";
import { TempDirectory } from "../_temp.ts";
import { WatchedClock } from "../_time.ts";
import { OPTIONS, until } from "./_project.ts";

const MANIFEST = `version: "0.1.0"
variables:
  API_URL: { tier: public, required: true }
  VITE_PLAN: { tier: public, type: enum, values: [free, pro], default: free }
  odd-name: { tier: public }
  KEY: { tier: sensitive }
  TOKEN: { tier: server }
`;
const ENV =
  "REP_PUBLIC_API_URL=https://api.example\nREP_SENSITIVE_KEY=secret\n";
const WITHOUT_MANIFEST: RepOptions = { envFile: "app.env" };

const BUILD = { command: "build" };
const SERVE = { command: "serve" };

/** A project with these files. */
async function makeProject(files: Record<string, string> = {}) {
  return await TempDirectory.make({
    ".rep.yaml": MANIFEST,
    "app.env": ENV,
    ...files,
  });
}

/** Returns the plugin for `import.meta.env`. */
function envPlugin(options: RepOptions = OPTIONS) {
  const [, plugin] = rep({ ...options, env: true });
  if (plugin === undefined) throw new Error("Expected a second plugin");
  return plugin;
}

/** What Vite reads by `import.meta.env` in the module `code`. @param type The type of its only node. */
function transform(
  plugin: ReturnType<typeof envPlugin>,
  code: string,
  type = "MetaProperty",
) {
  const parse = () => ({ type: "Program", body: [{ type, value: 1n }] });
  return plugin.transform.call({ parse }, code, "/src/main.js")?.code;
}

Deno.test("without env: true, there is nothing that changes import.meta.env", () => {
  assertEquals(rep(OPTIONS).length, 1);
  assertEquals(rep({ ...OPTIONS, env: false }).length, 1);
});

Deno.test("a build replaces the reads of the PUBLIC variables of the manifest, by envPrefix, and contains no value", async () => {
  await using project = await makeProject();
  const root = project.path;
  const replaced = async (envPrefix?: string | string[]) => {
    const { define } = await envPlugin().config({ root, envPrefix }, BUILD);
    return define;
  };
  const object = "__rep_import_meta_env__";
  assertEquals(await replaced(), {
    "import.meta.env.VITE_API_URL": `${object}.VITE_API_URL`,
    "import.meta.env.VITE_PLAN": `${object}.VITE_PLAN`,
  });
  assertEquals(await replaced("APP_"), {
    "import.meta.env.APP_API_URL": `${object}.APP_API_URL`,
    "import.meta.env.APP_VITE_PLAN": `${object}.APP_VITE_PLAN`,
  });
  assertEquals(await replaced(["APP_", "VITE_"]), {
    "import.meta.env.APP_API_URL": `${object}.APP_API_URL`,
    "import.meta.env.VITE_PLAN": `${object}.VITE_PLAN`,
  });
  assertEquals((await envPlugin().config({ root }, SERVE)).define, {});
});

Deno.test("without a manifest, the env files declare the variables", async () => {
  await using project = await makeProject();
  const plugin = envPlugin(WITHOUT_MANIFEST);
  const { define } = await plugin.config({ root: project.path }, BUILD);
  assertEquals(Object.keys(define), ["import.meta.env.VITE_API_URL"]);
});

Deno.test("a build fails if nothing declares variables, but the servers start", async () => {
  await using project = await makeProject();
  const config = { root: project.path };
  await Deno.remove(project.at("app.env"));
  await assertRejects(
    () => envPlugin(WITHOUT_MANIFEST).config(config, BUILD),
    Error,
    'Cannot build with "env: true": the build needs the names of the variables, from a manifest or an env file; ',
  );
  await envPlugin(WITHOUT_MANIFEST).config(config, SERVE);
  await envPlugin().config(config, BUILD); // the manifest is sufficient
});

Deno.test("two variables with the same name in import.meta.env are a mistake", async () => {
  const env = "REP_PUBLIC_PLAN=a\nREP_PUBLIC_VITE_PLAN=b\n";
  await using project = await makeProject({ "app.env": env });
  await assertRejects(
    () => envPlugin(WITHOUT_MANIFEST).config({ root: project.path }, SERVE),
    Error,
    "Cannot use import.meta.env.VITE_PLAN for both PLAN and VITE_PLAN",
  );
});

Deno.test("a variable that Vite has as well is a warning, by its name", async () => {
  await using project = await makeProject();
  const printed: string[] = [];
  const print = (message: string) => printed.push(message);
  const config = {
    env: { VITE_PLAN: "of-this-machine", VITE_OTHER: "other", DEV: false },
    isWorker: false,
    logger: { info: print, warn: print, error: print },
  };
  const plugin = envPlugin();
  await plugin.config({ root: project.path }, BUILD);
  plugin.configResolved(config);
  plugin.configResolved({ ...config, isWorker: true }); // it has said so
  assertEquals(printed.splice(0), [
    "[rep] import.meta.env.VITE_PLAN is VITE_PLAN of the gateway: Vite's own value is ignored",
  ]);
  const undeclared = envPlugin({});
  await undeclared.config({ root: project.path }, BUILD);
  undeclared.configResolved(config);
  assertEquals(printed, [
    "[rep] import.meta.env: no PUBLIC variable is declared",
  ]);
});

Deno.test("a module that reads import.meta.env imports the variables, on its first line", async () => {
  await using project = await makeProject();
  const plugin = envPlugin();
  await plugin.config({ root: project.path }, SERVE);
  const code = "a;\nimport.meta.env.VITE_PLAN;";
  const imported =
    'import { env as __rep_import_meta_env__, addTo as __rep_add_to_import_meta_env__ } from "virtual:rep/env";';
  const added = "__rep_add_to_import_meta_env__(import.meta.env);";
  assertEquals(transform(plugin, code), imported + added + code);
  await plugin.config({ root: project.path }, BUILD);
  assertEquals(transform(plugin, code), imported + code);
  // What `define` of Vite 6 and 7 has made of a read, and of the whole object.
  const replaced = "a(__rep_import_meta_env__.VITE_PLAN);";
  assertEquals(transform(plugin, replaced, "Other"), imported + replaced);
  const object =
    `{"DEV": false, "VITE_PLAN": __rep_import_meta_env__.VITE_PLAN};\n`;
  const getters =
    `{"DEV": false, get VITE_PLAN() { return __rep_import_meta_env__.VITE_PLAN }};\n`;
  const whole = "const __vite_import_meta_env__ = ";
  assertEquals(
    transform(plugin, `${whole}${object}own = ${object}`),
    `${imported}${whole}${getters}own = ${object}`,
  );
  const hashbang = "#!/usr/bin/env node\n";
  assertEquals(transform(plugin, hashbang + code), hashbang + imported + code);
});

Deno.test("text such as import.meta.env.VITE_PLAN is no read", async () => {
  await using project = await makeProject();
  const plugin = envPlugin();
  await plugin.config({ root: project.path }, BUILD);
  const comment = "// import.meta.env.VITE_PLAN";
  assertEquals(transform(plugin, comment, "Literal"), undefined);
  assertEquals(transform(plugin, "import.meta.url"), undefined);
});

Deno.test("a build of Vite 8 makes import.meta.env live where it is an object, and nothing that only looks like it", async () => {
  await using project = await makeProject();
  const plugin = envPlugin();
  await plugin.config({ root: project.path }, BUILD);
  const code = "import.meta.env; import.meta[env]; new.target.env";
  const object = { type: "MetaProperty", property: { name: "meta" } };
  const target = { type: "MetaProperty", property: { name: "target" } };
  const property = { name: "env" };
  const body = [
    { start: 0, end: 15, object, property },
    { start: 17, end: 33, object, property, computed: true },
    { start: 35, end: 49, object: target, property },
  ].map((node) => ({ type: "MemberExpression", computed: false, ...node }));
  const context = { parse: () => ({ type: "Program", body }) };
  const result = plugin.transform.call(context, code, "/src/main.js");
  assertEquals(
    result?.code.replace(/^import .*?;/, ""),
    "__rep_add_to_import_meta_env__(import.meta.env); import.meta[env]; new.target.env",
  );
});

Deno.test("the plugin's module has a getter for each variable, under the name in import.meta.env", async () => {
  await using project = await makeProject();
  const plugin = envPlugin();
  await plugin.config({ root: project.path }, BUILD);
  const id = plugin.resolveId("virtual:rep/env") ?? "";
  const { code = "" } = plugin.load(id) ?? {};
  assertEquals(code.match(/get \w+\(\) .*/g), [
    'get VITE_API_URL() { return read("API_URL"); },',
    'get VITE_PLAN() { return read("VITE_PLAN"); },',
  ]);
  assertEquals(plugin.resolveId("./main.js"), undefined);
  assertEquals(plugin.load("/src/main.js"), undefined);
  assertEquals(
    plugin.transform.call({ parse: () => ({}) }, code, id),
    undefined,
  );
});

/** What the plugin's module uses of the client. */
const CLIENT = `export const listeners = [];
export const onAnyChange = (listener) => listeners.push(listener);
export const getAll = () => ({ API_URL: "https://api.example" });
export const meta = () => ({ hotReloadAvailable: true });
`;

Deno.test("the plugin's module listens to changes from the first read on, whatever object is read", async () => {
  await using project = await makeProject({ "client.js": CLIENT });
  const plugin = envPlugin();
  await plugin.config({ root: project.path }, BUILD);
  const { code = "" } = plugin.load("\0virtual:rep/env") ?? {};
  const module = code.replace("@rep/gateway/client", "./client.js");
  const url = toFileUrl(await project.write("env.js", module));
  const { env, addTo } = await import(url.href);
  const { listeners } = await import(new URL("client.js", url).href);
  const added = { DEV: true, VITE_API_URL: "of-this-machine" };
  addTo(added);
  assertEquals(listeners.length, 0);
  assertEquals(added.VITE_API_URL, "https://api.example");
  assertEquals([env.VITE_API_URL, env.VITE_PLAN], [
    added.VITE_API_URL,
    undefined,
  ]);
  assertEquals(listeners.length, 1);
});

Deno.test("a value in HTML, which a build would have to know, is a mistake", async () => {
  await using project = await makeProject();
  const plugin = envPlugin();
  await plugin.config({ root: project.path }, SERVE);
  const { handler } = plugin.transformIndexHtml;
  handler("<title>%VITE_OTHER%</title>");
  assertThrows(
    () => handler("<title>%VITE_PLAN%</title>"),
    Error,
    "Cannot replace %VITE_PLAN% in HTML: its value is only known at run time; expected a script that reads import.meta.env.VITE_PLAN",
  );
});

Deno.test("Vite restarts if other variables are declared", async () => {
  await using project = await makeProject();
  const plugin = envPlugin();
  await plugin.config({ root: project.path }, SERVE);
  let restarts = 0;
  await plugin.configureServer({
    restart() {
      restarts++;
      return Promise.resolve();
    },
  });
  try {
    await project.write(".rep.yaml", `${MANIFEST}  NEW: { tier: public }\n`);
    await until(() => restarts === 1);
  } finally {
    plugin.closeBundle();
  }
});

Deno.test("Vite does not restart, and a build fails, if the manifest has a mistake", async () => {
  await using project = await makeProject();
  const plugin = envPlugin();
  await plugin.config({ root: project.path }, SERVE);
  const restarts: string[] = [];
  await plugin.configureServer({
    async restart() {
      restarts.push(await Deno.readTextFile(project.at(".rep.yaml")));
    },
  });
  const added = `${MANIFEST}  NEW: { tier: public }\n`;
  try {
    await project.write(".rep.yaml", "variables:\n\tA: { tier: public }\n");
    await delay(1_500); // longer than the watcher takes
    assertEquals(restarts, []);
    await assertRejects(
      () => envPlugin().config({ root: project.path }, BUILD),
      Error,
      "expected spaces at the beginning of line 2, got a tab",
    );
    await project.write(".rep.yaml", added);
    await until(() => restarts.length > 0);
    assertEquals(restarts, [added]);
  } finally {
    plugin.closeBundle();
  }
});

Deno.test("Vite does not restart for an env file that an editor has emptied and not written yet", async () => {
  await using project = await makeProject();
  const clock = new WatchedClock();
  const plugin = runtimeEnv(WITHOUT_MANIFEST, clock);
  await plugin.config({ root: project.path }, SERVE);
  let restarts = 0;
  await plugin.configureServer({
    restart() {
      restarts++;
      return Promise.resolve();
    },
  });
  async function tickUntil(isSo: () => boolean): Promise<void> {
    for (let ms = 0; !isSo(); ms += 10) {
      assert(ms < 60_000, `Expected within a minute: ${isSo}`);
      await clock.tick(10);
    }
  }
  try {
    await project.write("app.env", "");
    // Small steps leave the file system time to answer. Two timers: the watcher, and the second read.
    await tickUntil(() => clock.waiting === 2);
    await project.write("app.env", ENV);
    await clock.tick(500);
    assertEquals(restarts, 0);
    await project.write("app.env", `${ENV}REP_PUBLIC_NEW=1\n`);
    await tickUntil(() => restarts > 0);
    assertEquals(restarts, 1);
  } finally {
    plugin.closeBundle();
  }
});

Deno.test("a preview has nothing to change", () => {
  const plugin = envPlugin();
  assertEquals(plugin.apply({}, { isPreview: true }), false);
  assertEquals(plugin.apply({}, { isPreview: false }), true);
});

Deno.test("in Vitest, nothing is changed", async () => {
  await using project = await makeProject();
  const plugin = envPlugin();
  await plugin.config({ root: project.path }, SERVE);
  const print = () => {
    throw new Error("Expected nothing");
  };
  plugin.configResolved({
    env: { VITE_PLAN: "of a test" },
    isWorker: false,
    logger: { info: print, warn: print, error: print },
    plugins: [{ name: "vitest" }],
  });
  assertEquals(transform(plugin, "import.meta.env.VITE_PLAN"), undefined);
  await plugin.configureServer({ restart: print }); // watches nothing
});
