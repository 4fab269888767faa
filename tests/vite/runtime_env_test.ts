/** `env: true` with a double of Vite. `real_runtime_env_test.ts` shows the same in Vite itself, which needs npm. */
import {
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { toFileUrl } from "@std/path";
import { rep, type RepOptions } from "../../src/vite/mod.ts";
import { runtimeEnv } from "../../src/vite/runtime_env.ts";
import type { ViteDevServer } from "../../src/vite/vite.ts";
import { TempDirectory } from "../_temp.ts";
import { until, WatchedClock } from "../_time.ts";
import {
  makeProject as makeProjectOf,
  OPTIONS,
  PAGE,
  pluginsOf,
} from "./_project.ts";

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
const LIVE: RepOptions = { ...OPTIONS, env: true };
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

/** A project with these files, and what its development server does. */
async function makeServedProject() {
  return await makeProjectOf({ ".rep.yaml": MANIFEST, "app.env": ENV });
}

/** Returns the plugin for `import.meta.env`. */
function envPlugin(options: RepOptions = OPTIONS) {
  const [, , plugin] = pluginsOf({ ...options, env: true });
  if (plugin === undefined) throw new Error("Expected a third plugin");
  return plugin;
}

/** Makes of the module `code` what the plugin makes of it. @param type What each `import.meta.env` in it is. */
function transform(
  plugin: ReturnType<typeof envPlugin>,
  code: string,
  type = "MemberExpression",
) {
  const object = { type: "MetaProperty", property: { name: "meta" } };
  const fields = type === "MemberExpression"
    ? { object, property: { name: "env" } }
    : { value: 1n };
  const parse = (text: string) => {
    const places = text.matchAll(/import\.meta\.env/g);
    return Array.from(places, ({ index }) => {
      return { type, ...fields, start: index, end: index + 15 };
    });
  };
  return plugin.transform.call({ parse }, code, "/src/main.js")?.code;
}

Deno.test("without env: true, there is nothing that changes import.meta.env", () => {
  assertEquals(rep(OPTIONS).length, 2);
  assertEquals(rep({ ...OPTIONS, env: false }).length, 2);
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

Deno.test("the variables that Vite has as well are one warning, by their names", async () => {
  await using project = await makeServedProject();
  const { printed } = project;
  const config = project.configOf({
    env: {
      VITE_PLAN: "of-this-machine",
      VITE_API_URL: "",
      VITE_OTHER: "other",
      DEV: false,
    },
  });
  const plugin = envPlugin();
  await plugin.config({ root: config.root }, BUILD);
  plugin.configResolved(config);
  plugin.configResolved({ ...config, isWorker: true }); // it has said so
  assertEquals(printed.splice(0), [
    "[rep] import.meta.env has the gateway's values; Vite's own are ignored: VITE_API_URL, VITE_PLAN",
  ]);
  const undeclared = envPlugin({});
  await undeclared.config({ root: config.root }, BUILD);
  undeclared.configResolved(config);
  assertEquals(printed, [
    "[rep] import.meta.env: no PUBLIC variable is declared",
  ]);
});

Deno.test("a module that reads import.meta.env imports the variables, and its lines keep their numbers", async () => {
  await using project = await makeProject();
  const plugin = envPlugin();
  await plugin.config({ root: project.path }, SERVE);
  const code = "a;\nimport.meta.env.VITE_PLAN;";
  const imported =
    'import { env as __rep_import_meta_env__, addTo as __rep_add_to_import_meta_env__ } from "virtual:rep/env";';
  const atEnd = `\n${imported}`;
  const added = "__rep_add_to_import_meta_env__(import.meta.env);";
  assertEquals(transform(plugin, code), imported + added + code);
  await plugin.config({ root: project.path }, BUILD);
  assertEquals(transform(plugin, code), code + atEnd);
  // What `define` of Vite 6 and 7 has made of a read, and of the whole object.
  const replaced = "a(__rep_import_meta_env__.VITE_PLAN);";
  assertEquals(transform(plugin, replaced, "Other"), replaced + atEnd);
  const object =
    `{"DEV": false, "VITE_PLAN": __rep_import_meta_env__.VITE_PLAN};\n`;
  const live =
    `__rep_add_to_import_meta_env__({"DEV": false, "VITE_PLAN": __rep_import_meta_env__.VITE_PLAN});\n`;
  const whole = "const __vite_import_meta_env__ = ";
  assertEquals(
    transform(plugin, `${whole}${object}own = ${object}`),
    `${whole}${live}own = ${object}${atEnd}`,
  );
  const hashbang = "#!/usr/bin/env node\n";
  assertEquals(transform(plugin, hashbang + code), hashbang + code + atEnd);
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
  const code =
    "import.meta.env; import.meta[env]; new.target.env; import.meta.env?.A";
  const object = { type: "MetaProperty", property: { name: "meta" } };
  const target = { type: "MetaProperty", property: { name: "target" } };
  const property = { name: "env" };
  const body = [
    { start: 0, end: 15, object, property },
    { start: 17, end: 33, object, property, computed: true },
    { start: 35, end: 49, object: target, property },
    { start: 51, end: 66, object, property },
  ].map((node) => ({ type: "MemberExpression", computed: false, ...node }));
  const context = { parse: () => ({ type: "Program", body }) };
  const result = plugin.transform.call(context, code, "/src/main.js");
  assertEquals(
    result?.code.replace(/\nimport .*/, ""),
    "__rep_add_to_import_meta_env__(import.meta.env); import.meta[env]; new.target.env; import.meta.env?.A",
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

/** The client of a page whose configuration the browser has not parsed at first. */
const EARLY_CLIENT = `export const page = { meta: null, values: {} };
export const listeners = [];
export const onAnyChange = (listener) => listeners.push(listener);
export const getAll = () => page.values;
export const meta = () => page.meta;
`;

Deno.test("the plugin's module listens to changes once the page has its configuration, also if a read was too early", async () => {
  await using project = await makeProject({ "client.js": EARLY_CLIENT });
  const plugin = envPlugin();
  await plugin.config({ root: project.path }, BUILD);
  const { code = "" } = plugin.load("\0virtual:rep/env") ?? {};
  const module = code.replace("@rep/gateway/client", "./client.js")
    .replaceAll("globalThis", "({ document: {} })");
  const url = toFileUrl(await project.write("env.js", module));
  const { env } = await import(url.href);
  const { listeners, page } = await import(new URL("client.js", url).href);
  assertEquals([env.VITE_API_URL, listeners.length], [undefined, 0]);
  page.meta = { hotReloadAvailable: true };
  page.values = { API_URL: "https://api.example" };
  assertEquals([env.VITE_API_URL, listeners.length], [
    "https://api.example",
    1,
  ]);
  assertEquals([env.VITE_API_URL, listeners.length], [
    "https://api.example",
    1,
  ]);
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
  await using project = await makeServedProject();
  await using _vite = await project.startVite({}, 1, LIVE);
  await project.write(".rep.yaml", `${MANIFEST}  NEW: { tier: public }\n`);
  await until(() => project.restarts === 1);
});

Deno.test("Vite does not restart while the files have a mistake: open pages keep the last valid configuration", async () => {
  await using project = await makeServedProject();
  await using vite = await project.startVite({}, 1, LIVE);
  const mistakes = () => project.printed.filter((it) => it.includes("Cannot"));
  await project.write(".rep.yaml", "variables:\n\tA: { tier: public }\n");
  await until(() => mistakes().length === 1);
  await assertRejects(
    () => envPlugin().config({ root: project.at("") }, BUILD),
    Error,
    "expected spaces at the beginning of line 2, got a tab",
  );
  const required = `${MANIFEST}  NEW: { tier: public, required: true }\n`;
  await project.write(".rep.yaml", required);
  await until(() => mistakes().length === 2);
  assertEquals(project.restarts, 0);
  assertStringIncludes(await vite.insert(PAGE), "https://api.example");
  await project.write("app.env", `${ENV}REP_PUBLIC_NEW=1\n`);
  await until(() => project.restarts === 1);
});

Deno.test("Vite does not restart for an env file that an editor has emptied and not written yet", async () => {
  await using project = await makeProject();
  const clock = new WatchedClock();
  const plugin = runtimeEnv(WITHOUT_MANIFEST, clock);
  await plugin.config({ root: project.path }, SERVE);
  let restarts = 0;
  const server = {
    restart() {
      restarts++;
      return Promise.resolve();
    },
  };
  plugin.configureServer(server as ViteDevServer);
  await project.write("app.env", "");
  const checked = plugin.api.restartIfOutdated();
  await clock.waits(); // it reads the file again
  await project.write("app.env", ENV);
  await clock.tick(500);
  await checked;
  assertEquals(restarts, 0);
  await project.write("app.env", `${ENV}REP_PUBLIC_NEW=1\n`);
  await plugin.api.restartIfOutdated();
  assertEquals(restarts, 1);
});

Deno.test("a changed value reloads open pages if a module reads its name, since a read at its start shows nothing new", async () => {
  await using project = await makeServedProject();
  await using vite = await project.startVite({}, 1, LIVE);
  const urlIs = async (url: string) => {
    await project.write("app.env", `REP_PUBLIC_API_URL=${url}\n`);
    await until(async () => (await vite.insert(PAGE)).includes(url));
  };
  await project.write("app.env", ENV.replace("REP_SENSITIVE_KEY=secret", ""));
  await until(() => project.sent.length === 1); // the key is gone
  await vite.transform("import.meta.env.VITE_OTHER; get('VITE_API_URLS');");
  await vite.transform("get('VITE_API_URL')");
  await urlIs("https://second.example");
  assertEquals(project.sent.length, 1);
  await vite.transform("const env = import.meta.env; env.VITE_API_URL;");
  await urlIs("https://third.example");
  await until(() => project.sent.length === 2);
  assertEquals(project.sent[1], { type: "full-reload" });
});

Deno.test("without env: true, a changed value reloads no page", async () => {
  await using project = await makeServedProject();
  await using vite = await project.startVite();
  await vite.transform("import.meta.env.VITE_API_URL;");
  await project.write("app.env", ENV.replace("api", "second"));
  await until(async () => (await vite.insert(PAGE)).includes("second"));
  assertEquals(project.sent, []);
});

Deno.test("a preview has nothing to change", () => {
  const plugin = envPlugin();
  assertEquals(plugin.apply({}, { isPreview: true }), false);
  assertEquals(plugin.apply({}, { isPreview: false }), true);
});

Deno.test("in Vitest, nothing is changed", async () => {
  await using project = await makeServedProject();
  const config = project.configOf({
    env: { VITE_PLAN: "of a test" },
    plugins: [{ name: "vitest" }],
  });
  const plugin = envPlugin();
  await plugin.config({ root: config.root }, SERVE);
  plugin.configResolved(config);
  assertEquals(transform(plugin, "import.meta.env.VITE_PLAN"), undefined);
  assertEquals(project.printed, []);
});
