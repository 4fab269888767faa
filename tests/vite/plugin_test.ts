/** The plugin with a double of Vite's servers. `real_vite_test.ts` shows the same in Vite itself, which needs npm. */
import {
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { encodeBase64 } from "@std/encoding/base64";
import process from "node:process";
import { rep, type RepOptions } from "../../src/vite/mod.ts";
import type { ViteConfig, ViteUserConfig } from "../../src/vite/vite.ts";
import { ProjectFiles, resolvePaths } from "../../src/vite/project_files.ts";
import { serviceLinks } from "../_service_links.ts";
import { withEnvironment } from "../_environment.ts";
import { until, WatchedClock } from "../_time.ts";
import { makeProject, OPTIONS, PAGE, pluginsOf, titleOf } from "./_project.ts";

const MANIFEST = `version: "0.1.0"
variables:
  TITLE: { tier: public, required: true, pattern: "[A-Z][a-z]+" }
  KEY: { tier: sensitive }
`;
/** The env file with other values; one that is not given is not in the file. */
function envWith({ title, key }: { title?: string; key?: string }) {
  const lines: string[] = [];
  if (key !== undefined) lines.push(`REP_SENSITIVE_KEY=${key}\n`);
  if (title !== undefined) lines.push(`REP_PUBLIC_TITLE=${title}\n`);
  return lines.join("");
}

const FILES = {
  ".rep.yaml": MANIFEST,
  "app.env": envWith({ title: "Hello", key: "secret-key" }),
};
const INVALID_FILES = { ...FILES, "app.env": envWith({ title: "lower" }) };
/** What Vite sends to open pages. */
const RELOAD = { type: "full-reload" };
/** An update without any: it closes the overlay. */
const UPDATE = { type: "update", updates: [] };

// The development server.

/** A part of what Vite's types say of a plugin in a project that does not have the types of Node.js. */
interface PluginWithoutNodeTypes {
  name: string;
  configureServer?: (server: { readonly middlewares: unknown }) => void;
}

Deno.test("vite.config.ts has no type error in a project without the types of Node.js", () => {
  const ofVite: PluginWithoutNodeTypes[] = rep();
  assertEquals(ofVite.map(({ name }) => name), ["rep", "rep:reads"]);
});

Deno.test("the development server inserts the configuration, serves /rep/*, and writes the types", async () => {
  await using project = await makeProject(FILES);
  await using vite = await project.startVite();
  assertEquals(await vite.title(), "Hello");
  const { status, text } = await project.request("/rep/health");
  const { variables } = JSON.parse(text);
  assertEquals([status, variables.public, variables.sensitive], [200, 1, 1]);
  assertEquals((await project.request("/src/main.ts")).status, 404);
  const types = await project.read("src/rep.d.ts");
  assertStringIncludes(types, "readonly TITLE: string;");
  assertEquals(project.printed, ["[rep] wrote src/rep.d.ts"]);
  assertEquals(project.sent, []); // no page is reloaded
});

Deno.test("the development server inserts the configuration into pages that are sent without transformIndexHtml, and once into others", async () => {
  await using project = await makeProject(INVALID_FILES);
  await using vite = await project.startVite();
  assertEquals(await project.requestPage("/"), PAGE);
  await project.write("app.env", envWith({ title: "Hello" }));
  await until(async () => await vite.title() === "Hello");
  const page = await project.requestPage("/");
  assertEquals(titleOf(page), "Hello");
  assertEquals(page.length, (await vite.insert(PAGE)).length);
});

Deno.test("the endpoints are served to the hosts of Vite only", async () => {
  await using project = await makeProject(FILES);
  const server = { allowedHosts: [".example.com"] };
  await using _vite = await project.startVite({ server });
  const own = ["localhost:5173", "app.localhost", "127.0.0.1:5173", "[::1]:80"];
  for (const host of [...own, "example.com", "a.example.com"]) {
    const { status } = await project.request("/rep/health", { host });
    assertEquals(status, 200, host);
  }
  for (const host of ["evil.example", "example.com.evil.example", "a b", ""]) {
    const { status } = await project.request("/rep/health", { host });
    assertEquals(status, 421, host);
  }
});

Deno.test("a session key prints nothing: development needs no audit log", async () => {
  await using project = await makeProject(FILES);
  await using _vite = await project.startVite();
  project.printed.splice(0);
  const origin = "http://localhost:5173";
  const { status } = await project.request("/rep/session-key", { origin });
  assertEquals([status, project.printed], [200, []]);
});

Deno.test("a change of the env file changes open pages, a mistake is shown, and the last valid state stays", async () => {
  await using project = await makeProject(FILES);
  await using vite = await project.startVite();
  const changed = envWith({ title: "Changed", key: "secret-key" });
  await project.write("app.env", changed);
  await until(async () => await vite.title() === "Changed");

  await project.write("app.env", `${changed}oops\n`);
  await until(() => project.sent.length > 0);
  const mistake = "expected NAME=value, a comment or a blank line";
  const message = `"${project.at("app.env")}:3": ${mistake}`;
  const error = { type: "error", err: { message, stack: "", plugin: "rep" } };
  project.connect();
  // A page is reloaded if its first update finds an overlay.
  assertEquals(project.sent, [UPDATE, error, UPDATE, error]);
  assertEquals(await vite.title(), "Changed");
  assertEquals(project.printed.slice(1), [
    `[rep] "ROOT/app.env:3": ${mistake}\n` +
    "[rep] the last valid configuration stays active until this is corrected",
  ]);

  const corrected = envWith({ title: "Corrected", key: "secret-key" });
  await project.write("app.env", corrected);
  await until(() => project.sent.length > 4);
  assertEquals(project.sent.at(-1), UPDATE);
  assertEquals(await vite.title(), "Corrected");
});

Deno.test("a changed SENSITIVE value reloads open pages, as soon as the configuration is valid", async () => {
  await using project = await makeProject(FILES);
  await using _vite = await project.startVite();
  await project.write("app.env", envWith({ title: "Hello", key: "other-key" }));
  await until(() => project.sent.length > 0);
  assertEquals(project.sent.splice(0), [RELOAD]);
  await project.write("app.env", envWith({ title: "lower", key: "third-key" }));
  await until(() => project.sent.length > 1);
  project.sent.splice(0);
  await project.write("app.env", envWith({ title: "Upper", key: "third-key" }));
  await until(() => project.sent.length > 0);
  assertEquals(project.sent, [RELOAD]);
});

Deno.test("a mistake at the start is shown, and the gateway starts when it is corrected", async () => {
  await using project = await makeProject(INVALID_FILES);
  await using vite = await project.startVite();
  assertEquals(await vite.insert(PAGE), PAGE);
  assertEquals((await project.request("/rep/health")).status, 404);
  assertStringIncludes(
    project.printed[1] ?? "",
    '[rep] ROOT/app.env:1: Cannot use REP_PUBLIC_TITLE: expected a value that matches [A-Z][a-z]+, got "lower"\n',
  );
  await project.write("app.env", envWith({ title: "Upper" }));
  await until(() => project.sent.length > 2);
  assertEquals(project.sent.slice(2), [RELOAD]);
  assertEquals(await vite.title(), "Upper");
});

Deno.test("a manifest that does not exist is reported", async () => {
  await using project = await makeProject({ "app.env": "" });
  await using _vite = await project.startVite();
  assertStringIncludes(
    project.printed[0] ?? "",
    "[rep] Cannot read manifest: ENOENT: no such file or directory, open 'ROOT/.rep.yaml'\n",
  );
});

Deno.test("nothing is sent while no page is open, since Vite keeps a message for the first one", async () => {
  await using project = await makeProject(INVALID_FILES);
  await using _vite = await project.startVite({}, 0);
  assertEquals(project.sent, []);
});

Deno.test("a mistake is noticed that is corrected while the server starts", async () => {
  await using project = await makeProject(INVALID_FILES);
  const correct = () =>
    Deno.writeTextFileSync(project.at("app.env"), envWith({ title: "Hello" }));
  const logger = { ...project.configOf().logger, error: correct };
  await using vite = await project.startVite({ logger });
  await until(async () => await vite.title() === "Hello");
});

Deno.test("a change of the manifest writes the types again, but only if they differ", async () => {
  await using project = await makeProject(FILES);
  await using _vite = await project.startVite();
  const mode = "MODE: { tier: public, type: enum, values: [a, b], default: a }";
  await project.write(".rep.yaml", `${MANIFEST}  ${mode}\n`);
  await until(() => project.printed.length === 2);
  const types = await project.read("src/rep.d.ts");
  assertStringIncludes(types, 'readonly MODE: "a" | "b";');
  const { mtime } = await Deno.stat(project.at("src/rep.d.ts"));
  await project.write("app.env", envWith({ title: "Other" }));
  await until(async () => {
    const { text } = await project.request("/rep/health");
    return text.includes('"public":2');
  });
  assertEquals((await Deno.stat(project.at("src/rep.d.ts"))).mtime, mtime);
});

Deno.test("rep() says which runtime is needed on one that is too old, such as Node.js 20", () => {
  const { groupBy } = Map;
  try {
    Reflect.deleteProperty(Map, "groupBy");
    const message = `it needs Node.js 22.15 or newer, got ${process.version}`;
    assertThrows(() => rep(), Error, message);
  } finally {
    Map.groupBy = groupBy;
  }
});

// The preview server.

Deno.test("the preview server inserts the configuration into each page that a browser asks for, but not for a build that prerenders pages", async () => {
  await using project = await makeProject(FILES);
  using _preview = await project.startPreview({ base: "/app/" });
  const accept = "text/html,*/*";
  assertEquals(
    titleOf(await project.requestPage("/app/", { accept })),
    "Hello",
  );
  assertEquals(await project.requestPage("/app/", { accept: "*/*" }), PAGE);
  assertEquals((await project.request("/app/rep/health")).status, 200);
});

Deno.test("the gateway of a preview server ends with it", async () => {
  await using project = await makeProject(FILES);
  {
    using _preview = await project.startPreview({});
  }
  await until(async () =>
    (await project.request("/rep/health")).status !== 200
  );
});

// No page may contain a file that the plugin reads.

Deno.test("neither server of Vite serves what the plugin reads, by whatever name or link", async () => {
  await using project = await makeProject({
    ...FILES,
    "src/main.js": "",
    "src/app.env": "not read",
  });
  await Deno.symlink(project.at("app.env"), project.at("src/link.txt"));
  await Deno.link(project.at("app.env"), project.at("public/same.txt"));
  await Deno.link(project.at(".rep.yaml"), project.at("dist/copy.yaml"));
  const config = { base: "/a%20b/" };
  {
    await using _vite = await project.startVite(config);
    const denied = [
      "/app.env",
      "/a%20b/app.env",
      "/a%20b/%61pp.env?raw",
      "/a%20b/%2561pp.env",
      "/a b/app.env%3Fraw#x",
      "/a%20b/@id/file://" + project.at("app.env"),
      "/a%20b/@fs/" + project.at("app.env") + "/?import",
      "/a%20b/src/link.txt",
      "/a%20b/same.txt",
      "/.rep.yaml. .",
    ];
    assertEquals(await project.statusesOf(denied), denied.map(() => 403));
    const others = ["/src/main.js", "/src/app.env", "/none", "/%", "/%00"];
    assertEquals(await project.statusesOf(others), others.map(() => 404));
    await Deno.remove(project.at("app.env")); // an editor may be about to write it
    const paths = ["/app.env", "/.rep.yaml"];
    assertEquals(await project.statusesOf(paths), [404, 403]);
  }
  project.handlers.splice(0);
  using _preview = await project.startPreview(config);
  const copies = ["/copy.yaml", "/a%20b/copy.yaml?x"];
  assertEquals(await project.statusesOf(copies), [403, 403]);
});

Deno.test("config() denies the files that the plugin reads, and repeats what Vite denies unless the user has a list", () => {
  const [plugin] = pluginsOf({
    manifest: ".rep.yaml",
    envFile: ["a.env", "[b].env"],
  });
  const own = ["/no/project/a.env", "/no/project/\\[b\\].env"]
    .concat("/no/project/.rep.yaml");
  const denialsOf = (deny?: string[]) => {
    const server = { fs: { deny } };
    return plugin.config({ root: "/no/project", server }).server.fs.deny;
  };
  assertEquals(denialsOf(["mine"]), own);
  assertEquals(denialsOf().slice(-own.length), own);
  assertEquals(denialsOf().includes(".env"), true);
});

/** Returns what the plugin is given of a build with one file. */
function bundleOf(code: string) {
  return { "a.js": { type: "chunk", fileName: "a.js", code } as const };
}

Deno.test("a build fails if it contains a secret, by the name of the file and of the variable", async () => {
  await using project = await makeProject(FILES);
  const { generateBundle, transformIndexHtml } = project.pluginOf();
  await generateBundle.handler({}, bundleOf('const title = "Hello";'));
  const secret = bundleOf('key="secret-key"');
  await assertRejects(
    () => generateBundle.handler({}, secret),
    Error,
    'Cannot build: the output contains secrets\na.js: the value of KEY: expected getSecure("KEY"); or, if everyone may know it, a PUBLIC variable, with acceptPublic: ["KEY"] if it looks like a secret',
  );
  const token = bundleOf(`const a="${"ghp_" + "a1".repeat(18)}"`);
  await assertRejects(
    () => generateBundle.handler({}, token),
    Error,
    "a GitHub token",
  );
  const unchecked = project.pluginOf({ ...OPTIONS, lint: false });
  await unchecked.generateBundle.handler({}, secret);
  assertEquals(await transformIndexHtml.handler(PAGE), PAGE);
});

Deno.test("a build whose service worker precaches pages says which settings of vite-plugin-pwa they need", async () => {
  await using project = await makeProject(FILES);
  const plugins = [{ name: "vite-plugin-pwa" }];

  /** Returns what a build prints at its end. */
  async function printedFor(
    worker: string,
    config: Partial<ViteConfig> = { command: "build", plugins },
    options = OPTIONS,
  ) {
    await project.write("dist/sw.js", worker);
    await project.pluginOf(options, config).closeBundle.handler();
    return project.printed.splice(0);
  }

  const warning =
    "[rep] dist/sw.js: from the second visit on, precached pages have no configuration; expected workbox.globPatterns without html, and workbox.navigateFallback: null, as docs/service_workers.md of @rep/gateway explains";
  const precaching =
    'e.precacheAndRoute([{url:"a.js",revision:null},{url:"index.html",revision:"6e33"}],{})';
  const pages = [
    precaching,
    'V([{"revision":"6e33","url":"about/index.html"}])',
    '[{\n    "url": "index.html",\n    "revision": "6e33"\n  }]',
    'e.registerRoute(new e.NavigationRoute(e.createHandlerBoundToURL("index.html")))',
  ];
  for (const worker of pages) {
    assertEquals(await printedFor(worker), [warning], worker);
  }
  const others = [
    'e.precacheAndRoute([{url:"a.js",revision:null}],{})',
    'open({url:"index.html"})',
    'createHandlerBoundToURL(t){throw new e("non-precached-url",{url:t})}',
  ];
  for (const worker of others) {
    assertEquals(await printedFor(worker), [], worker);
  }
  await Deno.mkdir(project.at("dist/app"));
  await project.write("dist/app/worker.js", precaching);
  const inFolder = warning.replace("sw.js", "app/worker.js");
  assertEquals(await printedFor(""), [inFolder]);
  assertEquals(await printedFor(precaching, { command: "build" }), []);
  assertEquals(await printedFor(precaching, { command: "serve", plugins }), []);
  const unchecked = { ...OPTIONS, lint: false };
  assertEquals(await printedFor(precaching, undefined, unchecked), []);
});

Deno.test("a build needs no env file, as on a machine of CI", async () => {
  await using project = await makeProject({});
  const { generateBundle } = project.pluginOf();
  await generateBundle.handler({}, bundleOf('const title = "Hello";'));
});

Deno.test("a build fails if a source map in a file contains a secret", async () => {
  await using project = await makeProject(FILES);
  const { generateBundle } = project.pluginOf();
  const build = (source: string) => {
    const map = encodeBase64(JSON.stringify({ sourcesContent: [source] }));
    const type = "application/json;charset=utf-8";
    const comment = `//# sourceMappingURL=data:${type};base64,${map}\n`;
    return generateBundle.handler({}, bundleOf(`run();\n${comment}`));
  };
  await build("run(); // with the public key");
  await assertRejects(
    () => build("run(); // with secret-key"),
    Error,
    "Cannot build: the output contains secrets\na.js: the value of KEY",
  );
});

Deno.test("a prefix with which Vite would put secrets into import.meta.env is an error", async () => {
  await using project = await makeProject(FILES);
  const configure = (envPrefix: string | string[]) =>
    void project.pluginOf(OPTIONS, { envPrefix });
  for (const prefix of ["REP_", "REP_SERVER_", "REP_SENSITIVE_A", "REP_G"]) {
    assertThrows(
      () => configure(["VITE_", prefix]),
      Error,
      `Cannot use envPrefix "${prefix}": Vite would put SENSITIVE and SERVER variables into import.meta.env`,
    );
  }
  configure(["VITE_", "REP_PUBLIC_", "REPORT_"]);
});

Deno.test("a build fails if it imports what the plugin reads", async () => {
  await using project = await makeProject(FILES);
  const { load } = project.pluginOf(OPTIONS, { command: "build" });
  await load.handler(project.at("src/main.js"));
  await assertRejects(
    () => load.handler(project.at("app.env?raw")),
    Error,
    "Cannot import app.env: the plugin reads this file, and no page may contain it",
  );
});

Deno.test("a build fails if the folder of public files has what the plugin reads, unless nothing is checked or copied", async () => {
  await using project = await makeProject(FILES);
  const build = { command: "build" };
  await project.pluginOf(OPTIONS, build).buildStart();
  await Deno.mkdir(project.at("public/deep"));
  await Deno.link(project.at("app.env"), project.at("public/deep/b.txt"));
  await assertRejects(
    () => project.pluginOf(OPTIONS, build).buildStart(),
    Error,
    "Cannot build: public/deep/b.txt would be part of the build, where everyone can read it; expected it outside of public",
  );
  await project.pluginOf({ ...OPTIONS, lint: false }, build).buildStart();
  const uncopied = { outDir: "dist", copyPublicDir: false };
  await project.pluginOf(OPTIONS, { ...build, build: uncopied }).buildStart();
  await project.pluginOf(OPTIONS, { command: "serve" }).buildStart();
});

// What production rejects, and what is wrong with the files.

const STRICT = "settings: { strict_guardrails: true }\n";
const STRIPE_KEY = "sk_live_" + "a1b2c3d4e5".repeat(2);
const WITH_SECRET = {
  ".rep.yaml": `version: "0.1.0"
variables:
  TITLE: { tier: public }
  API: { tier: public, default: ${STRIPE_KEY} }
  OLD: { tier: public, deprecated: true, deprecated_message: use TITLE }
`,
  "app.env": `# for development\nREP_PUBLIC_TITLE=${STRIPE_KEY}\n`,
};
const secret = (name: string) =>
  `the value looks like a Stripe secret key; if it is meant to be public, add ${name} to --accept-public (in code: acceptPublic)`;

Deno.test("strict_guardrails of the manifest rejects a secret in development, too, in the terminal and over the page", async () => {
  const manifest = WITH_SECRET[".rep.yaml"] + STRICT;
  await using project = await makeProject({
    ...WITH_SECRET,
    ".rep.yaml": manifest,
  });
  await using vite = await project.startVite();
  assertEquals(await vite.insert(PAGE), PAGE);
  const issues = [
    `ROOT/app.env:2: Cannot publish REP_PUBLIC_TITLE in strict mode: ${
      secret("TITLE")
    }`,
    `the manifest ".rep.yaml:4": Cannot publish REP_PUBLIC_API in strict mode: ${
      secret("API")
    }`,
  ].join("\n");
  assertEquals(project.printed.slice(1), [
    `[rep] ${issues}\n[rep] pages have no configuration until this is corrected`,
  ]);
  const message = issues.replaceAll("ROOT", project.at("").replace(/\/$/, ""));
  const error = { type: "error", err: { message, stack: "", plugin: "rep" } };
  assertEquals(project.sent.splice(0), [UPDATE, error]);

  await project.write(".rep.yaml", WITH_SECRET[".rep.yaml"]);
  await until(() => project.sent.length > 0);
  assertEquals(project.sent, [RELOAD]);
  assertEquals(await vite.title(), STRIPE_KEY);
});

Deno.test("values that are accepted as public, by the manifest or the plugin, pass strict_guardrails", async () => {
  const settings =
    "settings: { strict_guardrails: true, accept_public: [API] }\n";
  const files = {
    ...WITH_SECRET,
    ".rep.yaml": WITH_SECRET[".rep.yaml"] + settings,
  };
  assertEquals(
    await mistakeIn(files),
    `[rep] ROOT/app.env:2: Cannot publish REP_PUBLIC_TITLE in strict mode: ${
      secret("TITLE")
    }`,
  );
  await using project = await makeProject(files);
  const options = { ...OPTIONS, acceptPublic: ["TITLE", "API"] };
  await using vite = await project.startVite({}, 0, options);
  assertEquals(await vite.title(), STRIPE_KEY);
});

Deno.test("changed settings of the manifest apply at once, or the gateway stays that runs", async () => {
  await using project = await makeProject(WITH_SECRET);
  await using vite = await project.startVite();
  const hasShortKeys = async () => {
    const { text } = await project.request("/rep/session-key", {
      origin: "http://localhost:5173",
    });
    const { expires_at: end } = JSON.parse(text);
    return Date.parse(end) - Date.now() <= 10_000;
  };
  await project.write(".rep.yaml", WITH_SECRET[".rep.yaml"] + STRICT);
  await until(() => project.sent.length > 1);
  assertEquals(project.sent.length, 2);
  assertEquals(await vite.title(), STRIPE_KEY);
  project.sent.splice(0);

  const settings = "settings: { session_key_ttl: 10s, hot_reload: false }\n";
  await project.write(".rep.yaml", MANIFEST + settings);
  await project.write("app.env", envWith({ title: "Hello", key: "k" }));
  await until(async () => await vite.title() === "Hello"); // pages may have been shown one file without the other
  assertEquals(await hasShortKeys(), true);
  assertEquals(project.sent.at(-1), RELOAD);
});

Deno.test("service links of Kubernetes do not replace values of files, and are one line", async () => {
  await using project = await makeProject({
    ".rep.yaml": MANIFEST,
    "app.env": envWith({ title: "Hello" }),
  });
  const links = serviceLinks("rep-public-title", "10.43.0.7");
  await withEnvironment(links, async () => {
    await using vite = await project.startVite();
    assertEquals(await vite.title(), "Hello");
    const lines = project.printed.filter((line) =>
      line.includes("REP_PUBLIC_TITLE_")
    );
    assertEquals(lines.length, 1);
    assertMatch(
      lines[0] ?? "",
      /rep-public-title: expected enableServiceLinks/,
    );
  });
});

Deno.test("what is suspicious is a readable line with file and line", async () => {
  await using project = await makeProject({
    ...WITH_SECRET,
    "app.env": `${WITH_SECRET["app.env"]}REP_PUBLIC_OLD=1\nREP_TITEL=2\n`,
  });
  await using _vite = await project.startVite();
  assertEquals(project.printed.slice(1), [
    `[rep] ROOT/app.env:2: REP_PUBLIC_TITLE: ${secret("TITLE")}`,
    `[rep] the manifest ".rep.yaml:4": REP_PUBLIC_API: ${secret("API")}`,
    "[rep] ROOT/app.env:3: REP_PUBLIC_OLD is deprecated: use TITLE",
    "[rep] ROOT/app.env:4: REP_TITEL: it is ignored: " +
    "expected the prefix REP_PUBLIC_, REP_SENSITIVE_ or REP_SERVER_",
  ]);
});

/** Returns the first line about what is wrong with these files. */
async function mistakeIn(
  files: Record<string, string>,
  options: RepOptions = OPTIONS,
) {
  await using project = await makeProject(files);
  await using _vite = await project.startVite({}, 0, options);
  const lines = project.printed.filter((line) => !line.includes("wrote"));
  const [first = ""] = lines.join("\n").split("\n");
  return first;
}

Deno.test("an issue has the file and the line of what is to be corrected", async () => {
  const settings = `${MANIFEST}settings: { strict_guardrails: 1 }\n`;
  const tab = MANIFEST.replace("  TITLE", "\tTITLE");
  assertEquals(
    [
      await mistakeIn({ ...FILES, ".rep.yaml": tab }),
      await mistakeIn({ ...FILES, ".rep.yaml": settings }),
      await mistakeIn({
        ...FILES,
        "app.env": "\nREP_PUBIC_TITLE=Hello\nREP_PUBLIC_A=\n",
      }),
      await mistakeIn({ ...FILES, "app.env": envWith({ key: "k" }) }),
      await mistakeIn({ ...FILES, "app.env": "REP_SERVER_TITLE=Hello\n" }),
    ],
    [
      '[rep] Cannot use the manifest ".rep.yaml:3": expected spaces at the beginning of line 3, got a tab',
      '[rep] Cannot use the manifest ".rep.yaml:5": settings.strict_guardrails: expected true or false, got 1',
      "[rep] ROOT/app.env:2: Cannot find REP_PUBLIC_TITLE: " +
      'the manifest ".rep.yaml:3" requires it, but it is not set; is it misspelled as REP_PUBIC_TITLE?',
      '[rep] Cannot find REP_PUBLIC_TITLE: the manifest ".rep.yaml:3" requires it, but it is not set',
      "[rep] ROOT/app.env:1: Cannot use REP_SERVER_TITLE: " +
      'the manifest ".rep.yaml:3" declares it as REP_PUBLIC_TITLE',
    ],
  );
});

Deno.test("a required variable that is set to nothing says so", async () => {
  const manifest = MANIFEST.replace(/, pattern: ".*?"/, "");
  const empty = envWith({ title: "" });
  assertEquals(
    [
      await mistakeIn({ ".rep.yaml": manifest, "app.env": empty }),
      await mistakeIn({ ...FILES, "app.env": empty }),
    ],
    [
      "[rep] ROOT/app.env:1: REP_PUBLIC_TITLE: it is required, but set to nothing",
      "[rep] ROOT/app.env:1: Cannot use REP_PUBLIC_TITLE: " +
      'expected a value that matches [A-Z][a-z]+, got ""',
    ],
  );
});

Deno.test("a missing env file is reported, once", async () => {
  const { "app.env": text, ...files } = FILES;
  await using project = await makeProject(files);
  await using vite = await project.startVite();
  assertStringIncludes(
    project.printed[1] ?? "",
    '[rep] "ROOT/app.env": No such file or directory',
  );
  await project.write(".rep.yaml", `${MANIFEST}# changed\n`);
  await until(() => project.sent.length > 2); // the overlay is shown again
  assertEquals(project.printed.length, 2);
  await project.write("app.env", text);
  await until(async () => await vite.title() === "Hello");
});

Deno.test("a half-written env file is read again before anything is said about it", async () => {
  await using project = await makeProject(FILES);
  const clock = new WatchedClock();
  const config = project.configOf();
  const paths = resolvePaths(OPTIONS, config.root);
  const files = new ProjectFiles(paths, config, clock);
  const variables = await files.readVariables();
  await project.write("app.env", "REP_SENSITIVE_KEY=secret-key\nREP_PUB");
  const reading = files.readVariables();
  await clock.waits();
  await project.write("app.env", FILES["app.env"]);
  await clock.tick(500);
  assertEquals(await reading, variables);
});

Deno.test("an env file may be missing if it is not required, and counts as soon as it exists", async () => {
  await using project = await makeProject(FILES);
  const local = { path: "local.env", required: false };
  const options = { ...OPTIONS, envFile: ["app.env", local] };
  await using vite = await project.startVite({}, 1, options);
  assertEquals([await vite.title(), project.printed.length], ["Hello", 1]);
  await project.write("local.env", envWith({ title: "Local" }));
  await until(async () => await vite.title() === "Local");
  await Deno.remove(project.at("local.env"));
  await until(async () => await vite.title() === "Hello");
  assertEquals(project.printed.length, 1);
});

Deno.test("a name of Vite's in an env file is a warning with file and line, once", async () => {
  const env = envWith({ title: "Hello", key: "k" }) +
    "VITE_PLAN=pro\nOTHER=a\n";
  await using project = await makeProject({ ...FILES, "app.env": env });
  const files = new ProjectFiles(
    resolvePaths(OPTIONS, project.at("")),
    project.configOf(),
  );
  await files.readVariables();
  await files.readVariables();
  assertEquals(project.printed, [
    "[rep] ROOT/app.env:3: VITE_PLAN is ignored: expected REP_PUBLIC_PLAN",
  ]);
  project.printed.splice(0);
  const ownPrefix = new ProjectFiles(
    resolvePaths(OPTIONS, project.at("")),
    project.configOf({ envPrefix: ["REP_PUBLIC_"] }),
  );
  await ownPrefix.readVariables();
  assertEquals(project.printed, []);
});

Deno.test("no variable with a prefix is a warning", async () => {
  const envFile = "app.env";
  const hint =
    "[rep] there are no variables: expected names that begin with REP_PUBLIC_, REP_SENSITIVE_ or REP_SERVER_, in the file that envFile names, or in the environment";
  assertEquals(
    [
      await mistakeIn({ "app.env": "TITLE=Hello\n" }, { envFile }),
      await mistakeIn({}, {}),
      await mistakeIn(FILES, { envFile }),
    ],
    [hint, hint, ""],
  );
});

Deno.test("the types are written where the project has its code, and what cannot be written is a warning", async () => {
  await using project = await makeProject(FILES);
  await Deno.remove(project.at("src"));
  {
    await using vite = await project.startVite();
    assertEquals(await vite.title(), "Hello");
  }
  await Deno.mkdir(project.at("app"));
  {
    await using _vite = await project.startVite();
  }
  await Deno.writeTextFile(project.at("file"), "");
  const options = { ...OPTIONS, types: "file/rep.d.ts" };
  await using vite = await project.startVite({}, 1, options);
  assertEquals(await vite.title(), "Hello");
  const [root, app, failure = ""] = project.printed;
  assertEquals([root, app], [
    "[rep] wrote rep.d.ts",
    "[rep] wrote app/rep.d.ts",
  ]);
  assertStringIncludes(failure, "[rep] Cannot write file/rep.d.ts: ");
});

const WITHOUT_MANIFEST = { envFile: "app.env" };
const ENV_FILE = "REP_SERVER_DB=x\nREP_PUBLIC_TITLE=Hello\n" +
  "REP_SENSITIVE_KEY=secret-key\nREP_PUBLIC_ODD-NAME=1\nVITE_OTHER=1\n";

Deno.test("without a manifest, the development server writes the names in the env file as types, and again when they change", async () => {
  await withEnvironment({ CI: "" }, async () => {
    await using project = await makeProject({ "app.env": ENV_FILE });
    await using _vite = await project.startVite({}, 1, WITHOUT_MANIFEST);
    const types = await project.read("src/rep.d.ts");
    assertMatch(types, /^\/\/ Generated by the Vite plugin .* env files/);
    const names = [...types.matchAll(/^ {4}readonly (.*)$/gm)].slice(0, 4)
      .map(([, property]) => property);
    assertEquals(names, [
      '"ODD-NAME"?: string;',
      "TITLE?: string;",
      "KEY?: string;",
      "DB?: string;",
    ]);
    assertEquals(types.includes("secret-key"), false);
    const added = `${ENV_FILE}REP_PUBLIC_ADDED=1\n`;
    await project.write("app.env", added);
    await until(async () =>
      (await project.read("src/rep.d.ts")).includes("ADDED?: string;")
    );
  });
});

Deno.test("without a manifest, no types are written in CI, in previews, with types: false, or without names", async () => {
  const hasTypes = (project: { at(name: string): string }) =>
    Deno.stat(project.at("src/rep.d.ts")).then(() => true, () => false);
  await withEnvironment({ CI: "1" }, async () => {
    await using project = await makeProject({ "app.env": ENV_FILE });
    await using _vite = await project.startVite({}, 1, WITHOUT_MANIFEST);
    assertEquals(await hasTypes(project), false);
  });
  await withEnvironment({ CI: "" }, async () => {
    await using project = await makeProject({ "app.env": "OTHER=1\n" });
    {
      await using _vite = await project.startVite({}, 1, WITHOUT_MANIFEST);
      assertEquals(await hasTypes(project), false);
    }
    await project.write("app.env", ENV_FILE);
    {
      const options = { ...WITHOUT_MANIFEST, types: false } as const;
      await using _vite = await project.startVite({}, 1, options);
      assertEquals(await hasTypes(project), false);
    }
    {
      using _preview = await project.startPreview({}, WITHOUT_MANIFEST);
      assertEquals(await hasTypes(project), false);
    }
  });
});

Deno.test("types are never written over what was not generated, nor names of env files over types from a manifest", async () => {
  await withEnvironment({ CI: "" }, async () => {
    const own = "declare const own: string;\n";
    await using project = await makeProject({
      ...FILES,
      "src/rep.d.ts": own,
    });
    for (const options of [WITHOUT_MANIFEST, OPTIONS]) {
      await using _vite = await project.startVite({}, 1, options);
      assertEquals(await project.read("src/rep.d.ts"), own);
    }
    assertEquals(project.printed, [
      "[rep] Cannot write src/rep.d.ts: it was not generated; expected to remove it, or another path as types",
    ]);
    await Deno.remove(project.at("src/rep.d.ts"));
    const written: string[] = [];
    for (const options of [WITHOUT_MANIFEST, OPTIONS, WITHOUT_MANIFEST]) {
      await using _vite = await project.startVite({}, 1, options);
      written.push(await project.read("src/rep.d.ts"));
    }
    assertStringIncludes(written[0]!, "TITLE?: string;");
    assertStringIncludes(written[1]!, "TITLE: string;");
    assertEquals(written[2], written[1]);
  });
});

Deno.test("Vitest, which starts a server of Vite, starts no gateway", async () => {
  await using project = await makeProject(FILES);
  const plugins = [{ name: "vite:css" }, { name: "vitest:config" }];
  await using vite = await project.startVite({ plugins });
  assertEquals([await vite.insert(PAGE), project.printed], [PAGE, []]);
  assertEquals(project.handlers.length, 0);
});

Deno.test("Vitest gets an alias for the client, unless the user has one", () => {
  const [plugin] = pluginsOf(OPTIONS);
  const vitest = [[{ name: "app" }], null, { name: "vitest" }];
  const aliasOf = (config: ViteUserConfig) => {
    const { resolve } = plugin.config(config) as ViteUserConfig;
    return resolve?.alias;
  };
  const own = { "@rep/gateway/client": "@rep/gateway/testing" };
  const others = [undefined, {}, { "@": "/src" }, [{ find: /^@\// }]];
  for (const alias of [...others, { "@rep/gateway/clients": "/x" }]) {
    assertEquals(aliasOf({ plugins: vitest, resolve: { alias } }), own);
  }
  const client = "@rep/gateway/client";
  const theirs = [{ [client]: "/x" }, [{ find: /client$/ }]];
  for (const alias of [...theirs, { "@rep/gateway": "/src" }]) {
    const configs = [{ resolve: { alias } }, { test: { alias } }];
    for (const config of configs) {
      assertEquals(aliasOf({ plugins: vitest, ...config }), {});
    }
  }
  assertEquals(aliasOf({ plugins: [{ name: "vite" }] }), undefined);
});

Deno.test("rep() rejects an option that does not exist, and says what may be meant", () => {
  const options = { envfile: "app.env" } as RepOptions;
  assertThrows(
    () => rep(options),
    TypeError,
    'Cannot use the option "envfile" of rep(): expected one of manifest, envFile, types, acceptPublic, lint, env; did you mean envFile?',
  );
});

Deno.test("the plugin twice is an error, since pages of one gateway would ask the other for keys", async () => {
  await using project = await makeProject(FILES);
  const twice = [{ name: "rep" }, { name: "vite:css" }, { name: "rep" }];
  assertThrows(
    () => project.pluginOf(OPTIONS, { plugins: twice }),
    Error,
    "Cannot use rep() 2 times: expected it once in plugins, and in no preset",
  );
  project.pluginOf(OPTIONS, { plugins: twice.slice(1) });
  // Vitest starts no gateway, and since version 5 gives each project the plugins of the root as well.
  project.pluginOf(OPTIONS, { plugins: [...twice, { name: "vitest" }] });
});

Deno.test("the function in the place of the plugin is an error, since Vite would take it for one", () => {
  const plugin = rep as unknown as { config(): void };
  assertThrows(
    () => plugin.config(),
    TypeError,
    "Cannot use the plugin rep: expected rep() in plugins, got the function",
  );
});
