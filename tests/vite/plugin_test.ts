import {
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { join } from "@std/path";
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

/** A folder with a project, what Vite prints and sends to pages, and its handlers. */
class Project implements AsyncDisposable {
  readonly #directory: TempDirectory;
  readonly printed: string[] = [];
  readonly sent: unknown[] = [];
  readonly handlers: NodeHandler[] = [];
  #connected = () => {};
  #closed = () => {};

  private constructor(directory: TempDirectory) {
    this.#directory = directory;
  }

  static async make(files: Record<string, string>): Promise<Project> {
    const project = new Project(await TempDirectory.make());
    await Deno.mkdir(project.at("src"));
    for (const [name, text] of Object.entries(files)) {
      await project.write(name, text);
    }
    return project;
  }

  at(name: string): string {
    return join(this.#directory.path, name);
  }

  async write(name: string, text: string): Promise<void> {
    await Deno.writeTextFile(this.at(name), text);
  }

  config(options: Partial<ViteConfig> = {}): ViteConfig {
    const print = (message: string) =>
      void this.printed.push(message.replaceAll(this.#directory.path, "ROOT"));
    return {
      command: "serve",
      root: this.#directory.path,
      publicDir: "",
      base: "/",
      appType: "spa",
      build: { outDir: "dist" },
      server: {},
      preview: {},
      logger: { info: print, warn: print, error: print },
      ...options,
    };
  }

  async startVite(
    options: RepOptions,
    config: Partial<ViteConfig> = {},
    pages = 1,
  ) {
    const plugin = rep(options);
    const resolved = this.config(config);
    plugin.configResolved(resolved);
    await plugin.configureServer({
      config: resolved,
      middlewares: { use: (handler) => this.handlers.push(handler) },
      ws: {
        clients: { size: pages },
        send: (message) => this.sent.push(message),
        on: (_, listener) => this.#connected = listener,
      },
    });
    return { ...plugin, [Symbol.asyncDispose]: plugin.closeBundle };
  }

  async startPreview(
    options: RepOptions,
    config: Partial<ViteConfig> = {},
  ): Promise<() => void> {
    const plugin = rep(options);
    const resolved = this.config(config);
    plugin.configResolved(resolved);
    await plugin.configurePreviewServer({
      config: resolved,
      middlewares: { use: (handler) => this.handlers.push(handler) },
      httpServer: { on: (_, listener) => this.#closed = listener },
    });
    return () => this.#closed();
  }

  /** A page connects, such as after a reload. */
  connect(): void {
    this.#connected();
  }

  /** Sends a request through the handlers; 404 is the status of a request that Vite itself would answer. */
  async request(url: string, headers: Record<string, string> = {}) {
    const { promise, resolve, reject } = Promise.withResolvers<
      { status: number; headers: Headers; text: string }
    >();
    const set = new Headers({
      "access-control-allow-origin": "http://localhost:3000",
    }); // Vite's default
    let status = 404;
    let text = "";
    const response = {
      removeHeader: (name: string) => set.delete(name),
      writeHead(code: number, own: Record<string, string>) {
        status = code;
        for (const [name, value] of Object.entries(own)) set.set(name, value);
      },
      write(chunk: Uint8Array) {
        text += new TextDecoder().decode(chunk);
        return true;
      },
      end: () => resolve({ status, headers: set, text }),
      on() {},
      off() {},
    };
    const request = {
      method: "GET",
      url,
      headers: { host: "localhost:5173", ...headers },
      socket: {},
    };
    const next = (index: number) => (error?: unknown): void => {
      if (error !== undefined) return reject(error);
      const handler = this.handlers[index];
      if (handler === undefined) response.end();
      else handler(request, response, next(index + 1));
    };
    next(0)();
    return await promise;
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

const FILES = {
  ".rep.yaml": MANIFEST,
  "app.env": "REP_PUBLIC_TITLE=Hello\nREP_SENSITIVE_KEY=secret-key\n",
};
const OPTIONS: RepOptions = { manifest: ".rep.yaml", envFile: "app.env" };

function publicOf(html: string): unknown {
  const [, text = "null"] =
    /<script id="__rep__"[^>]*>(.*?)<\/script>/.exec(html) ?? [];
  return JSON.parse(text)?.public;
}

Deno.test("the development server inserts the configuration, serves /rep/*, and writes the types", async () => {
  await using project = await Project.make(FILES);
  await using vite = await project.startVite(OPTIONS);
  assertEquals(publicOf(await vite.transformIndexHtml.handler(PAGE)), {
    TITLE: "Hello",
  });
  const health = await project.request("/rep/health");
  assertEquals([health.status, JSON.parse(health.text).variables], [200, {
    public: 1,
    sensitive: 1,
    server: 0,
  }]);
  assertEquals((await project.request("/src/main.ts")).status, 404);
  assertStringIncludes(
    await Deno.readTextFile(project.at("src/rep.d.ts")),
    "readonly TITLE: string;",
  );
  assertEquals(project.printed, ["[rep] wrote src/rep.d.ts"]);
});

Deno.test("the endpoints are served to the hosts of Vite only, and to no other origin", async () => {
  await using project = await Project.make(FILES);
  await using _vite = await project.startVite(OPTIONS, {
    server: { allowedHosts: [".example.com"] },
  });
  const hosts = [
    "localhost:5173",
    "app.localhost",
    "127.0.0.1:5173",
    "[::1]:5173",
    "example.com",
    "a.example.com",
  ];
  for (const host of hosts) {
    assertEquals(
      (await project.request("/rep/health", { host })).status,
      200,
      host,
    );
  }
  for (const host of ["evil.example", "example.com.evil.example", "a b", ""]) {
    assertEquals(
      (await project.request("/rep/health", { host })).status,
      421,
      host,
    );
  }
  const origin = "http://localhost:3000";
  const foreign = await project.request("/rep/session-key", { origin });
  assertEquals([
    foreign.status,
    foreign.headers.get("access-control-allow-origin"),
  ], [403, null]);
  project.printed.splice(0);
  const own = await project.request("/rep/session-key", {
    origin: "http://localhost:5173",
  });
  assertEquals([own.status, project.printed], [200, []]); // development needs no audit log
});

Deno.test("a change of the env file changes open pages, a mistake is shown, and the last valid state stays", async () => {
  await using project = await Project.make(FILES);
  await using vite = await project.startVite(OPTIONS);
  const title = async () =>
    publicOf(await vite.transformIndexHtml.handler(PAGE));
  const write = (text: string) =>
    project.write("app.env", `REP_SENSITIVE_KEY=secret-key\n${text}`);
  await write("REP_PUBLIC_TITLE=Changed\n");
  await until(async () =>
    JSON.stringify(await title()) === '{"TITLE":"Changed"}'
  );
  await write("REP_PUBLIC_TITLE=Changed\noops\n");
  await until(() => project.sent.length > 0);
  const message = `${
    project.at("app.env")
  }:3: expected NAME=value, a comment or a blank line`;
  const error = { type: "error", err: { message, stack: "", plugin: "rep" } };
  project.connect();
  const update = { type: "update", updates: [] }; // a page is reloaded if its first update finds an overlay
  assertEquals([project.sent, await title()], [[update, error, update, error], {
    TITLE: "Changed",
  }]);
  assertEquals(project.printed.slice(1), [
    "[rep] ROOT/app.env:3: expected NAME=value, a comment or a blank line\n" +
    "[rep] the last valid configuration stays until that is corrected",
  ]);
  await write("REP_PUBLIC_TITLE=Corrected\n");
  await until(() => project.sent.length > 4);
  assertEquals([project.sent.at(-1), await title()], [update, {
    TITLE: "Corrected",
  }]);
});

Deno.test("a changed SENSITIVE value reloads open pages, as soon as the configuration is valid", async () => {
  await using project = await Project.make(FILES);
  await using _vite = await project.startVite(OPTIONS);
  const write = (...lines: string[]) =>
    project.write("app.env", lines.join("\n"));
  await write("REP_PUBLIC_TITLE=Hello", "REP_SENSITIVE_KEY=other-key");
  await until(() => project.sent.length > 0);
  assertEquals(project.sent.splice(0), [{ type: "full-reload" }]);
  await write("REP_PUBLIC_TITLE=lower", "REP_SENSITIVE_KEY=third-key");
  await until(() => project.sent.length > 1);
  project.sent.splice(0);
  await write("REP_PUBLIC_TITLE=Upper", "REP_SENSITIVE_KEY=third-key");
  await until(() => project.sent.length > 0);
  assertEquals(project.sent, [{ type: "full-reload" }]);
});

Deno.test("a manifest that does not exist is reported with what would be right", async () => {
  await using project = await Project.make({ "app.env": "" });
  await using _vite = await project.startVite(OPTIONS);
  const [line = ""] = project.printed;
  assertEquals(
    line.split("\n")[0],
    '[rep] ROOT/.rep.yaml: expected the manifest, or no option "manifest"',
  );
});

Deno.test("rep() says which runtime is needed on one that is too old, such as Node.js 20", () => {
  const { groupBy } = Map;
  try {
    Reflect.deleteProperty(Map, "groupBy");
    assertThrows(
      () => rep(),
      Error,
      "expected Map.groupBy(), as in Node.js 22 or later",
    );
  } finally {
    Map.groupBy = groupBy;
  }
});

Deno.test("a mistake at the start is shown, and the gateway starts when it is corrected", async () => {
  await using project = await Project.make({
    ...FILES,
    "app.env": "REP_PUBLIC_TITLE=lower\n",
  });
  await using vite = await project.startVite(OPTIONS);
  assertEquals(await vite.transformIndexHtml.handler(PAGE), PAGE);
  assertEquals((await project.request("/rep/health")).status, 404);
  const mistake =
    'Cannot use REP_PUBLIC_TITLE: expected a value that matches [A-Z][a-z]+, got "lower"';
  const [line = ""] = project.printed.slice(1);
  assertEquals(line.split("\n")[0], `[rep] ROOT/app.env:1: ${mistake}`);
  await project.write("app.env", "REP_PUBLIC_TITLE=Upper\n");
  await until(() => project.sent.length > 2);
  assertEquals(project.sent.slice(2), [{ type: "full-reload" }]);
  assertEquals(publicOf(await vite.transformIndexHtml.handler(PAGE)), {
    TITLE: "Upper",
  });
});

Deno.test("nothing is sent while no page is open, since Vite keeps a message for the first one", async () => {
  await using project = await Project.make({
    ...FILES,
    "app.env": "REP_PUBLIC_TITLE=lower\n",
  });
  await using _vite = await project.startVite(OPTIONS, {}, 0);
  assertEquals(project.sent, []);
});

Deno.test("no page is reloaded at a start without a mistake", async () => {
  await using project = await Project.make(FILES);
  await using _vite = await project.startVite(OPTIONS);
  assertEquals(project.sent, []);
});

Deno.test("a change of the manifest writes the types again, but only if they differ", async () => {
  await using project = await Project.make(FILES);
  await using _vite = await project.startVite({
    ...OPTIONS,
    types: "src/rep.d.ts",
  });
  await project.write(
    ".rep.yaml",
    MANIFEST +
      "  MODE: { tier: public, type: enum, values: [a, b], default: a }\n",
  );
  await until(() => project.printed.length === 2);
  assertStringIncludes(
    await Deno.readTextFile(project.at("src/rep.d.ts")),
    'readonly MODE: "a" | "b";',
  );
  const { mtime } = await Deno.stat(project.at("src/rep.d.ts"));
  await project.write("app.env", "REP_PUBLIC_TITLE=Other\n");
  await until(async () =>
    (await project.request("/rep/health")).text.includes('"public":2')
  );
  assertEquals((await Deno.stat(project.at("src/rep.d.ts"))).mtime, mtime);
});

Deno.test("everything is served under Vite's base", async () => {
  await using project = await Project.make(FILES);
  await using vite = await project.startVite(OPTIONS, { base: "/app/" });
  assertStringIncludes(
    await vite.transformIndexHtml.handler(PAGE),
    '"hot_reload":"/app/rep/changes?',
  );
  const statuses = await Promise.all(
    ["/app/rep/health", "/rep/health"].map((path) => project.request(path)),
  );
  assertEquals(statuses.map(({ status }) => status), [200, 404]);
});

Deno.test("the preview server inserts the configuration into the pages of the build", async () => {
  await using project = await Project.make(FILES);
  await Deno.mkdir(project.at("dist/about"), { recursive: true });
  await project.write("dist/index.html", PAGE);
  await project.write("dist/about/index.html", PAGE.replace("x", "about"));
  await project.write("dist/data.json", "{}");
  await project.write("secret.html", "no page of the build");
  const close = await project.startPreview(OPTIONS, { base: "/app/" });
  const accept = "text/html,*/*";
  for (
    const [path, title] of [["/app/", "x"], ["/app/deep/link", "x"], [
      "/app/about/",
      "about",
    ]]
  ) {
    const page = await project.request(path!, { accept });
    assertEquals([page.status, publicOf(page.text)], [200, { TITLE: "Hello" }]);
    assertStringIncludes(page.text, `<title>${title}</title>`);
  }
  const others = [
    "/app/data.json",
    "/",
    "/app/rep.png",
    "/app/../secret.html",
    "/app/%2e%2e/secret.html",
    "/app/%",
  ];
  for (const path of others) {
    assertEquals(
      (await project.request(path, { accept })).text.includes(
        "no page of the build",
      ),
      false,
      path,
    );
  }
  assertEquals(
    (await project.request("/app/data.json", { accept: "*/*" })).status,
    404,
  );
  assertEquals((await project.request("/app/rep/health")).status, 200);
  close();
  await until(async () =>
    (await project.request("/app/rep/health")).status !== 200
  );
});

Deno.test("a build fails if it contains a secret, by the name of the file and of the variable", async () => {
  await using project = await Project.make(FILES);
  const plugin = rep(OPTIONS);
  plugin.configResolved(project.config());
  const chunk = (code: string) => ({
    "a.js": { type: "chunk", fileName: "a.js", code } as const,
  });
  await plugin.generateBundle.handler({}, chunk('const title = "Hello";'));
  const error = await assertRejects(
    () => plugin.generateBundle.handler({}, chunk('key="secret-key"')),
    Error,
  );
  assertEquals(
    error.message,
    "Cannot build: the output contains secrets\na.js: the value of KEY",
  );
  const token = "ghp_" + "a1".repeat(18);
  await assertRejects(
    () => plugin.generateBundle.handler({}, chunk(`const a="${token}"`)),
    Error,
    "a GitHub token",
  );
  const silent = rep({ ...OPTIONS, lint: false });
  silent.configResolved(project.config());
  await silent.generateBundle.handler({}, chunk('key="secret-key"'));
  assertEquals(await plugin.transformIndexHtml.handler(PAGE), PAGE);
});

Deno.test("neither server of Vite serves what the plugin reads, by whatever name or link", async () => {
  await using project = await Project.make({
    ...FILES,
    "src/main.js": "",
    "src/app.env": "not read",
  });
  await Deno.mkdir(project.at("public"));
  await Deno.mkdir(project.at("dist"));
  await Deno.symlink(project.at("app.env"), project.at("src/link.txt"));
  await Deno.link(project.at("app.env"), project.at("public/same.txt"));
  await Deno.link(project.at(".rep.yaml"), project.at("dist/copy.yaml"));
  const statusesOf = async (paths: string[]) => {
    const statuses = paths.map(async (path) =>
      (await project.request(path)).status
    );
    return await Promise.all(statuses);
  };
  const config = { base: "/a%20b/", publicDir: project.at("public") };
  {
    await using _vite = await project.startVite(OPTIONS, config);
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
    assertEquals(await statusesOf(denied), denied.map(() => 403));
    const others = ["/src/main.js", "/src/app.env", "/none", "/%", "/%00"];
    assertEquals(await statusesOf(others), others.map(() => 404));
    await Deno.remove(project.at("app.env")); // an editor may be about to write it
    assertEquals(await statusesOf(["/app.env", "/.rep.yaml"]), [404, 403]);
  }
  project.handlers.splice(0);
  const close = await project.startPreview(OPTIONS, config);
  assertEquals(await statusesOf(["/copy.yaml", "/a%20b/copy.yaml?x"]), [
    403,
    403,
  ]);
  close();
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

Deno.test("a build fails if the folder of public files has what the plugin reads, and if it is imported", async () => {
  await using project = await Project.make(FILES);
  await Deno.mkdir(project.at("public/deep"), { recursive: true });
  const publicDir = project.at("public");
  const start = (
    options: RepOptions,
    build: Partial<ViteConfig["build"]> = {},
    command = "build",
  ) => {
    const plugin = rep({ ...OPTIONS, ...options });
    plugin.configResolved(
      project.config({
        command,
        publicDir,
        build: { outDir: "dist", ...build },
      }),
    );
    return plugin;
  };
  await start({}).buildStart();
  await start({}).load.handler(project.at("src/main.js"));
  await assertRejects(
    () => start({}).load.handler(project.at("app.env?raw")),
    Error,
    "Cannot import app.env: what the plugin reads is for no page",
  );
  await Deno.link(project.at("app.env"), project.at("public/deep/b.txt"));
  await assertRejects(
    () => start({}).buildStart(),
    Error,
    "Cannot build: public/deep/b.txt would be part of the build, for everyone to read; expected it outside of public",
  );
  await start({ lint: false }).buildStart();
  await start({}, { copyPublicDir: false }).buildStart();
  await start({}, {}, "serve").buildStart();
});
