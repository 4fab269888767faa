/** The plugin with a double of Vite's servers. `real_vite_test.ts` shows the same in Vite itself, which needs npm. */
import {
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { rep, type RepOptions, type ViteConfig } from "../../src/vite/mod.ts";
import type { NodeHandler } from "../../src/http/node_handler.ts";
import { TempDirectory } from "../_temp.ts";

const MANIFEST = `version: "0.1.0"
variables:
  TITLE: { tier: public, required: true, pattern: "[A-Z][a-z]+" }
  KEY: { tier: sensitive }
`;
const PAGE =
  "<!doctype html><html><head><title>x</title></head><body></body></html>";

/** The env file with other values; one that is not given is not in the file. */
function envWith({ title, key }: { title?: string; key?: string }): string {
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
const OPTIONS: RepOptions = { manifest: ".rep.yaml", envFile: "app.env" };

/** What Vite sends to open pages. */
const RELOAD = { type: "full-reload" };
/** An update without any: it closes the overlay. */
const UPDATE = { type: "update", updates: [] };

/** A folder with a project, what Vite prints and sends to pages, and its handlers. */
class Project implements AsyncDisposable {
  readonly #directory: TempDirectory;
  readonly printed: string[] = [];
  readonly sent: unknown[] = [];
  readonly handlers: NodeHandler[] = [];
  /** A page connects, such as after a reload. */
  connect = () => {};

  private constructor(directory: TempDirectory) {
    this.#directory = directory;
  }

  static async make(files: Record<string, string> = FILES): Promise<Project> {
    const directory = await TempDirectory.make();
    for (const folder of ["src", "public", "dist"]) {
      await Deno.mkdir(directory.at(folder));
    }
    for (const [name, text] of Object.entries(files)) {
      await directory.write(name, text);
    }
    return new Project(directory);
  }

  at(name: string): string {
    return this.#directory.at(name);
  }

  /** Replaces a file at once: the plugin, unlike the command, shows what it reads from a half-written one. */
  async write(name: string, text: string): Promise<void> {
    const written = await this.#directory.write(`${name}.tmp`, text);
    await Deno.rename(written, this.at(name));
  }

  async read(name: string): Promise<string> {
    return await Deno.readTextFile(this.at(name));
  }

  config(options: Partial<ViteConfig> = {}): ViteConfig {
    const print = (message: string) => {
      this.printed.push(message.replaceAll(this.#directory.path, "ROOT"));
    };
    return {
      command: "serve",
      root: this.#directory.path,
      publicDir: this.at("public"),
      base: "/",
      appType: "spa",
      build: { outDir: "dist" },
      server: {},
      preview: {},
      logger: { info: print, warn: print, error: print },
      ...options,
    };
  }

  /** Returns the plugin with Vite's configuration. */
  plugin(options: RepOptions = OPTIONS, config: Partial<ViteConfig> = {}) {
    const plugin = rep(options);
    plugin.configResolved(this.config(config));
    return plugin;
  }

  /** Starts the development server. @param pages How many pages are open. */
  async startVite(config: Partial<ViteConfig> = {}, pages = 1) {
    const plugin = this.plugin(OPTIONS, config);
    await plugin.configureServer({
      middlewares: { use: (handler) => this.handlers.push(handler) },
      ws: {
        clients: { size: pages },
        send: (message) => this.sent.push(message),
        on: (_, listener) => this.connect = listener,
      },
    });
    return {
      insert: plugin.transformIndexHtml.handler,
      async title() {
        return titleOf(await plugin.transformIndexHtml.handler(PAGE));
      },
      [Symbol.asyncDispose]: plugin.closeBundle,
    };
  }

  /** Starts the preview server. It ends with the event `close` of Vite's. */
  async startPreview(config: Partial<ViteConfig>): Promise<Disposable> {
    let close = () => {};
    await this.plugin(OPTIONS, config).configurePreviewServer({
      middlewares: { use: (handler) => this.handlers.push(handler) },
      httpServer: { on: (_, listener) => close = listener },
    });
    return { [Symbol.dispose]: () => close() };
  }

  /** Sends a request through the handlers; 404 is the status of a request that Vite itself would answer. */
  async request(url: string, headers: Record<string, string> = {}) {
    const ended = Promise.withResolvers<void>();
    const answer = { status: 404, text: "" };
    const response = {
      writeHead: (status: number) => answer.status = status,
      write(chunk: Uint8Array) {
        answer.text += new TextDecoder().decode(chunk);
        return true;
      },
      end: ended.resolve,
      on() {},
      off() {},
    };
    const request = {
      method: "GET",
      url,
      headers: { host: "localhost:5173", ...headers },
      socket: {},
    };
    const [...handlers] = this.handlers;
    function next(error?: unknown): void {
      if (error !== undefined) return ended.reject(error);
      const handler = handlers.shift();
      if (handler === undefined) return ended.resolve();
      handler(request, response, next);
    }
    next();
    await ended.promise;
    return answer;
  }

  /** Returns the statuses of requests for these paths. */
  async statusesOf(paths: string[]): Promise<number[]> {
    const answers = await Promise.all(paths.map((path) => this.request(path)));
    return answers.map(({ status }) => status);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]();
  }
}

/** Waits until a condition holds: file system events have no clock. */
async function until(
  condition: () => boolean | Promise<boolean>,
): Promise<void> {
  while (!await condition()) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Returns the title that a page has been given. */
function titleOf(html: string): unknown {
  const [, text = "{}"] =
    /<script id="__rep__"[^>]*>(.*?)<\/script>/.exec(html) ?? [];
  return JSON.parse(text).public?.TITLE;
}

// The development server.

Deno.test("the development server inserts the configuration, serves /rep/*, and writes the types", async () => {
  await using project = await Project.make();
  await using vite = await project.startVite();
  assertEquals(await vite.title(), "Hello");
  const { status, text } = await project.request("/rep/health");
  const { variables } = JSON.parse(text);
  assertEquals([status, variables.public, variables.sensitive], [200, 1, 1]);
  assertEquals((await project.request("/src/main.ts")).status, 404);
  const types = await project.read("src/rep.d.ts");
  assertStringIncludes(types, "readonly TITLE: string;");
  assertEquals(project.printed, ["[rep] wrote src/rep.d.ts"]);
});

Deno.test("the endpoints are served to the hosts of Vite only", async () => {
  await using project = await Project.make();
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
  await using project = await Project.make();
  await using _vite = await project.startVite();
  project.printed.splice(0);
  const origin = "http://localhost:5173";
  const { status } = await project.request("/rep/session-key", { origin });
  assertEquals([status, project.printed], [200, []]);
});

Deno.test("a change of the env file changes open pages, a mistake is shown, and the last valid state stays", async () => {
  await using project = await Project.make();
  await using vite = await project.startVite();
  const changed = envWith({ title: "Changed", key: "secret-key" });
  await project.write("app.env", changed);
  await until(async () => await vite.title() === "Changed");

  await project.write("app.env", `${changed}oops\n`);
  await until(() => project.sent.length > 0);
  const mistake = "expected NAME=value, a comment or a blank line";
  const message = `${project.at("app.env")}:3: ${mistake}`;
  const error = { type: "error", err: { message, stack: "", plugin: "rep" } };
  project.connect();
  // A page is reloaded if its first update finds an overlay.
  assertEquals(project.sent, [UPDATE, error, UPDATE, error]);
  assertEquals(await vite.title(), "Changed");
  assertEquals(project.printed.slice(1), [
    `[rep] ROOT/app.env:3: ${mistake}\n` +
    "[rep] the last valid configuration stays until that is corrected",
  ]);

  const corrected = envWith({ title: "Corrected", key: "secret-key" });
  await project.write("app.env", corrected);
  await until(() => project.sent.length > 4);
  assertEquals(project.sent.at(-1), UPDATE);
  assertEquals(await vite.title(), "Corrected");
});

Deno.test("a changed SENSITIVE value reloads open pages, as soon as the configuration is valid", async () => {
  await using project = await Project.make();
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
  await using project = await Project.make(INVALID_FILES);
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

Deno.test("a manifest that does not exist is reported with what would be right", async () => {
  await using project = await Project.make({ "app.env": "" });
  await using _vite = await project.startVite();
  assertStringIncludes(
    project.printed[0] ?? "",
    '[rep] ROOT/.rep.yaml: expected the manifest, or no option "manifest"\n',
  );
});

Deno.test("nothing is sent while no page is open, since Vite keeps a message for the first one", async () => {
  await using project = await Project.make(INVALID_FILES);
  await using _vite = await project.startVite({}, 0);
  assertEquals(project.sent, []);
});

Deno.test("no page is reloaded at a start without a mistake", async () => {
  await using project = await Project.make();
  await using _vite = await project.startVite();
  assertEquals(project.sent, []);
});

Deno.test("a change of the manifest writes the types again, but only if they differ", async () => {
  await using project = await Project.make();
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
    const message = "expected Map.groupBy(), as in Node.js 22 or later";
    assertThrows(() => rep(), Error, message);
  } finally {
    Map.groupBy = groupBy;
  }
});

// The preview server.

Deno.test("the preview server inserts the configuration into the pages of the build", async () => {
  await using project = await Project.make({
    ...FILES,
    "dist/index.html": PAGE,
    "dist/about.html": PAGE.replace("x", "about"),
    "dist/data.json": "{}",
    "secret.html": "no page of the build",
  });
  using _preview = await project.startPreview({ base: "/app/" });
  const accept = "text/html,*/*";
  const pages = { "/app/": "x", "/app/deep/link": "x", "/app/about": "about" };
  for (const [path, title] of Object.entries(pages)) {
    const { text } = await project.request(path, { accept });
    assertEquals(titleOf(text), "Hello");
    assertStringIncludes(text, `<title>${title}</title>`);
  }
  for (const path of ["../secret.html", "%2e%2e/secret.html", "%"]) {
    const { text } = await project.request(`/app/${path}`, { accept });
    assertEquals(text.includes("no page of the build"), false, path);
  }
  const data = await project.request("/app/data.json", { accept: "*/*" });
  assertEquals(data.status, 404);
  assertEquals((await project.request("/app/rep/health")).status, 200);
});

Deno.test("the gateway of a preview server ends with it", async () => {
  await using project = await Project.make();
  {
    using _preview = await project.startPreview({});
  }
  await until(async () =>
    (await project.request("/rep/health")).status !== 200
  );
});

// What the plugin reads is for no page.

Deno.test("neither server of Vite serves what the plugin reads, by whatever name or link", async () => {
  await using project = await Project.make({
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
  const plugin = rep({ manifest: ".rep.yaml", envFile: ["a.env", "[b].env"] });
  const own = ["/no/project/a.env", "/no/project/\\[b\\].env"]
    .concat("/no/project/.rep.yaml")
    .flatMap((pattern) => [pattern, pattern]); // the path, and its real path
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
  await using project = await Project.make();
  const { generateBundle, transformIndexHtml } = project.plugin();
  await generateBundle.handler({}, bundleOf('const title = "Hello";'));
  const secret = bundleOf('key="secret-key"');
  await assertRejects(
    () => generateBundle.handler({}, secret),
    Error,
    "Cannot build: the output contains secrets\na.js: the value of KEY",
  );
  const token = bundleOf(`const a="${"ghp_" + "a1".repeat(18)}"`);
  await assertRejects(
    () => generateBundle.handler({}, token),
    Error,
    "a GitHub token",
  );
  const unchecked = project.plugin({ ...OPTIONS, lint: false });
  await unchecked.generateBundle.handler({}, secret);
  assertEquals(await transformIndexHtml.handler(PAGE), PAGE);
});

Deno.test("a build fails if it imports what the plugin reads", async () => {
  await using project = await Project.make();
  const { load } = project.plugin(OPTIONS, { command: "build" });
  await load.handler(project.at("src/main.js"));
  await assertRejects(
    () => load.handler(project.at("app.env?raw")),
    Error,
    "Cannot import app.env: what the plugin reads is for no page",
  );
});

Deno.test("a build fails if the folder of public files has what the plugin reads, unless nothing is checked or copied", async () => {
  await using project = await Project.make();
  const build = { command: "build" };
  await project.plugin(OPTIONS, build).buildStart();
  await Deno.mkdir(project.at("public/deep"));
  await Deno.link(project.at("app.env"), project.at("public/deep/b.txt"));
  await assertRejects(
    () => project.plugin(OPTIONS, build).buildStart(),
    Error,
    "Cannot build: public/deep/b.txt would be part of the build, for everyone to read; expected it outside of public",
  );
  await project.plugin({ ...OPTIONS, lint: false }, build).buildStart();
  const uncopied = { outDir: "dist", copyPublicDir: false };
  await project.plugin(OPTIONS, { ...build, build: uncopied }).buildStart();
  await project.plugin(OPTIONS, { command: "serve" }).buildStart();
});
