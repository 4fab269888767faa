/** The plugin in Vite itself, on Node.js and in a browser. `tests/vite_guide_test.ts` tests it with React and Vue. */
import { serveLocally } from "../_serve.ts";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { get } from "node:http";
import type { TestBrowser } from "../_browser.ts";
import { ExamplePage } from "../_example.ts";
import { NpmExample, testNpmExample } from "../_npm_example.ts";

const MANIFEST = `version: "0.1.0"
variables:
  TITLE: { tier: public, required: true, pattern: "[A-Z][A-Za-z ]+" }
  MAP_KEY: { tier: sensitive }
settings: { hot_reload: true, hot_reload_mode: file_watch }
`;

const MAIN = `import { get, getSecure, onChange } from "@rep/gateway/client";
const show = (selector, text) => document.querySelector(selector).textContent = text;
show("h1", get("TITLE"));
onChange("TITLE", (title) => show("h1", title));
document.querySelector("button").onclick = async () => show("output", await getSecure("MAP_KEY"));
`;

/** A page with what all examples show. */
function pageOf(title: string) {
  return `<!doctype html><html><head><link rel="icon" href="data:,"><title>${title}</title></head><body><!--server-->
<h1></h1><button>Decrypt</button><output></output><script type="module" src="/src/main.js"></script></body></html>`;
}

/** The files of a project without a framework. @param options More of Vite's configuration, as code. */
function filesOf(options = ""): Record<string, string> {
  return {
    "index.html": pageOf("Home"),
    "src/main.js": MAIN,
    ".rep.yaml": MANIFEST,
    "app.env":
      "REP_PUBLIC_TITLE=Hello from the gateway\nREP_SENSITIVE_MAP_KEY=example-map-key\n",
    "vite.config.js": `import { rep } from "@rep/gateway/vite";
export default { ${options} plugins: [rep({ manifest: ".rep.yaml", envFile: "app.env" })] };
`,
  };
}

/** A plugin that renders pages itself, as frameworks do: streamed, and without `transformIndexHtml`. */
const FRAMEWORK = `const [before, after] = ${
  JSON.stringify(pageOf("Rendered").split("<!--server-->"))
};
function render(request, response) {
  response.writeHead(200, { "content-type": "text/html" });
  response.write(before);
  setImmediate(() => response.end(after));
}
const use = ({ middlewares }) => void middlewares.use("/rendered", render);
export const framework = () => ({ name: "framework", configureServer: use, configurePreviewServer: use });
`;

/** Returns how many configurations a page has. */
async function countElements(url: string) {
  const response = await fetch(url, { headers: { accept: "text/html" } });
  return (await response.text()).split('id="__rep__"').length - 1;
}

/** Opens a page of the project in its first state, and checks it. */
async function checkPage(
  browser: TestBrowser,
  project: NpmExample,
  url: string,
) {
  const page = await ExamplePage.open(browser, url);
  await page.check((from, to) => project.edit("app.env", from, to));
  await project.edit("app.env", "Good morning", "Hello from the gateway");
  await page.shows("h1", "Hello from the gateway");
  return page;
}

/** Returns the status and the permitted origin of a response, by the path and the headers of the request. */
function requestsTo(url: string) {
  return (
    path: string,
    headers: Record<string, string>,
  ): Promise<[status: number | undefined, origin: string | undefined]> =>
    new Promise((resolve, reject) => {
      const request = get(
        `${url}${path}`,
        { headers, agent: false },
        ({ statusCode, headers }) => {
          resolve([statusCode, headers["access-control-allow-origin"]]);
          request.destroy(); // a stream would not end
        },
      );
      request.on("error", reject);
    });
}

/** Returns the paths of those requests, and their statuses, that got something else than 403, or the secret. */
async function served(url: string, paths: string[]): Promise<string[]> {
  const found: string[] = [];
  for (const path of paths) {
    const { status, body } = await rawRequest(new URL(url), path);
    if (status !== 403 || body.includes("never-served")) {
      found.push(`${path}: ${status}`);
    }
  }
  return found;
}

/** Requests a path as it is written, which a client would normalize. */
async function rawRequest(
  { hostname, port }: URL,
  path: string,
): Promise<{ status: number; body: string }> {
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const head = `GET ${path} HTTP/1.1\r\nhost: ${hostname}:${port}\r\n`;
  const request = `${head}connection: close\r\n\r\n`;
  await connection.write(new TextEncoder().encode(request));
  const body = await new Response(connection.readable).text();
  return { status: Number(body.split(" ")[1]), body };
}

/** Prints which denials of Vite itself the plugin has removed, and which of its files Vite may load. */
const SHOW_DENIALS =
  `import { isFileLoadingAllowed, resolveConfig } from "vite";
const own = await resolveConfig({ configFile: false }, "serve");
const config = await resolveConfig({}, "serve");
const missing = own.server.fs.deny.filter((pattern) => !config.server.fs.deny.includes(pattern));
const files = ["config (1)/[a]/app.env", ".rep.yaml", "src/main.js"];
const allowed = files.filter((file) => isFileLoadingAllowed(config, config.root + "/" + file));
console.log("Local: http://" + JSON.stringify([missing, allowed]).replaceAll(" ", "_"));
setInterval(() => {}, 1000);
`;

for (const version of ["vite-6", "vite-7", "vite-8"] as const) {
  testNpmExample(
    `${version}: the development server serves nothing that the plugin reads, however it is asked`,
    async () => {
      await using project = await NpmExample.make(version, {
        ...filesOf(),
        "app.env": "REP_PUBLIC_TITLE=Hello\nREP_SERVER_TOKEN=never-served\n",
        "other.env": "not read",
      });
      await Deno.symlink(project.at("app.env"), project.at("src/link.txt"));
      await Deno.link(project.at("app.env"), project.at("src/same.txt"));
      const root = await Deno.realPath(project.path);
      await using vite = await project.startVite();
      const paths = [
        "/app.env",
        "/app.env?raw",
        "/app.env?url",
        "/app.env?import",
        "/app.env?import&raw",
        "/app.env?import&url&inline",
        "/app.env?raw??",
        "/%61pp.env",
        "/%61pp.env?raw",
        "//app.env",
        "///app.env?raw",
        "/./app.env",
        "/src/../app.env",
        "/src\\..\\app.env",
        "http://localhost/app.env",
        "/src/%2e%2e/app.env?raw",
        "/app.env/",
        `/@fs${root}/app.env`,
        `/@fs/${root}/app.env`,
        `//@fs${root}/app.env?raw`,
        `/@fs${root}/src/../%61pp.env?import&raw`,
        `/%40fs${root}/app.env?raw`,
        `${root}/app.env?import&raw`,
        `/@id/${root}/app.env?import&raw`,
        "/@id/app.env?raw",
        "/src/link.txt",
        "/src/link.txt?raw",
        "/src/same.txt?import&raw",
        "/.rep.yaml",
        "/.rep.yaml?raw",
        `/@fs${root}/.rep.yaml`,
      ];
      assertEquals(await served(vite.url, paths), []);
      for (const path of ["/other.env?raw", "/src/main.js", "/%"]) {
        const { status, body } = await rawRequest(new URL(vite.url), path);
        assertEquals([status === 403, body.includes("never-served")], [
          false,
          false,
        ], path);
      }
    },
  );

  testNpmExample(
    `${version}: a base, a file in public/, and the preview server: nothing that the plugin reads is served`,
    async () => {
      const files = filesOf('base: "/app/",');
      await using project = await NpmExample.make(version, {
        ...files,
        "public/app.env":
          "REP_PUBLIC_TITLE=Hello\nREP_SERVER_TOKEN=never-served\n",
        "dist/index.html": pageOf("Built"),
        "vite.config.js": files["vite.config.js"]!.replace(
          "app.env",
          "public/app.env",
        ),
      });
      await Deno.symlink("../public/app.env", project.at("dist/app.env"));
      const paths = ["/app/app.env", "/app//app.env?raw", "/app/%61pp.env"];
      {
        await using vite = await project.startVite();
        const others = [
          "/app/public/app.env",
          "/app/@fs" + project.at("public/app.env"),
        ];
        assertEquals(await served(vite.url, [...paths, ...others]), []);
      }
      await using preview = await project.startVite({ command: "preview" });
      assertEquals(await served(preview.url, paths), []);
    },
  );

  testNpmExample(
    `${version}: plugins: [rep] without the call is an error`,
    async () => {
      const { "vite.config.js": config = "", ...files } = filesOf();
      await using project = await NpmExample.make(version, {
        ...files,
        "vite.config.js": config.replace(/rep\(.*\)/, "rep"),
      });
      const { success, output } = await project.run("vite", "build");
      assertEquals(success, false);
      assertStringIncludes(
        output,
        "expected rep() in plugins, got the function",
      );
    },
  );

  testNpmExample(
    `${version}: Vite denies what the plugin reads, beside what it denies itself`,
    async () => {
      const files = filesOf();
      await using project = await NpmExample.make(version, {
        ...files,
        "config (1)/[a]/app.env": "REP_PUBLIC_TITLE=Hello\n",
        "vite.config.js": files["vite.config.js"]!.replace(
          "app.env",
          "config (1)/[a]/app.env",
        ),
        "show.js": SHOW_DENIALS,
      });
      await using shown = await project.startProgram("show.js");
      assertEquals(shown.url, 'http://[[],["src/main.js"]]');
    },
  );

  testNpmExample(
    `${version}: a build fails whose files would be served with what the plugin reads`,
    async () => {
      const files = filesOf();
      await using project = await NpmExample.make(version, {
        ...files,
        "public/deep/app.env": files["app.env"]!,
        "vite.config.js": files["vite.config.js"]!.replace(
          "app.env",
          "public/deep/app.env",
        ),
      });
      const first = await project.run("vite", "build");
      assertEquals(first.success, false, first.output);
      assertStringIncludes(
        first.output,
        "Cannot build: public/deep/app.env would be part of the build",
      );
      await project.edit("vite.config.js", "public/deep/app.env", "app.env");
      await Deno.remove(project.at("public"), { recursive: true });
      await project.edit(
        "src/main.js",
        /^/,
        'import text from "../app.env?raw";\nconsole.log(text);\n',
      );
      const second = await project.run("vite", "build");
      assertEquals(second.success, false, second.output);
      assertStringIncludes(
        second.output,
        "Cannot import app.env: the plugin reads this file, and no page may contain it",
      );
    },
  );

  testNpmExample(
    `${version}: pages change while open, a mistake is shown until it is corrected`,
    async (browser) => {
      await using project = await NpmExample.make(version, filesOf());
      await using vite = await project.startVite();
      const page = await checkPage(browser, project, vite.url);
      await project.edit("app.env", "Hello", "hello");
      const overlay = page.page.locator("vite-error-overlay");
      await overlay.getByText("Cannot use REP_PUBLIC_TITLE").waitFor();
      await page.shows("h1", "Hello from the gateway");
      await vite.printed("app.env:1: Cannot use REP_PUBLIC_TITLE");
      await project.edit("app.env", "hello", "Good night");
      await overlay.waitFor({ state: "detached" });
      await page.shows("h1", "Good night from the gateway");
      assertEquals([await page.isMarked(), page.errors], [true, []]);
      await project.edit("app.env", "example-map-key", "another-map-key");
      await page.page.waitForFunction("globalThis.isMarked !== true"); // a SENSITIVE value reloads the page
      await page.page.getByRole("button", { name: "Decrypt" }).click();
      await page.shows("output", "another-map-key");
    },
  );

  testNpmExample(
    `${version}: a framework renders pages without transformIndexHtml, in development and preview`,
    async (browser) => {
      const files = filesOf();
      await using project = await NpmExample.make(version, {
        ...files,
        "framework.js": FRAMEWORK,
        "vite.config.js": `import { framework } from "./framework.js";
${files["vite.config.js"]}`.replace("plugins: [", "plugins: [framework(), "),
      });
      {
        await using vite = await project.startVite();
        await checkPage(browser, project, `${vite.url}/rendered`);
        assertEquals(await countElements(`${vite.url}/rendered`), 1);
        assertEquals(await countElements(vite.url), 1);
      }
      const { success, output } = await project.run("vite", "build");
      assertEquals(success, true, output);
      await using preview = await project.startVite({ command: "preview" });
      const page = await ExamplePage.open(browser, `${preview.url}/rendered`);
      await page.page.locator("#__rep__").waitFor({ state: "attached" });
      assertEquals(await countElements(`${preview.url}/rendered`), 1);
    },
  );

  testNpmExample(
    `${version}: /rep/* is served to the hosts of Vite only, and to no other origin`,
    async () => {
      await using project = await NpmExample.make(
        version,
        filesOf("server: { allowedHosts: ['.example.com'] },"),
      );
      await using vite = await project.startVite();
      const request = requestsTo(vite.url);
      const foreignHost = version === "vite-6" ? 421 : 403; // Vite 6 checks hosts only after its plugins
      const origin = "http://localhost:3000"; // Vite permits it
      assertEquals(await request("/src/main.js", { origin }), [200, origin]);
      for (
        const path of [
          "/rep/health",
          "/rep/changes",
          "/rep/session-key",
          "/rep/client.js",
        ]
      ) {
        const status = path === "/rep/session-key" ? 403 : 200;
        assertEquals(
          await request(path, { origin }),
          [status, undefined],
          path,
        );
        assertEquals(await request(path, { host: "elsewhere.example" }), [
          foreignHost,
          undefined,
        ], path);
      }
      assertEquals(await request("/rep/health", { host: "app.example.com" }), [
        200,
        undefined,
      ]);
    },
  );
}

testNpmExample(
  "an app with a base and two pages: development, preview, and the build behind a gateway",
  async (browser) => {
    const input =
      "build: { rollupOptions: { input: ['index.html', 'about/index.html'] } },";
    await using project = await NpmExample.make("vite-8", {
      ...filesOf(`base: "/app/", ${input}`),
      "about/index.html": pageOf("About"),
    });
    const checkPages = async (url: string) => {
      assertEquals(
        await (await checkPage(browser, project, `${url}/`)).page.title(),
        "Home",
      );
      assertEquals(
        await (await checkPage(browser, project, `${url}/about/`)).page.title(),
        "About",
      );
    };
    {
      await using vite = await project.startVite();
      assertEquals(new URL(vite.url).pathname, "/app");
      await checkPages(vite.url);
    }
    const { success, output } = await project.run("vite", "build");
    assertEquals(success, true, output);
    {
      await using preview = await project.startVite({ command: "preview" });
      await checkPages(preview.url);
    }
    await using gateway = await project.startGateway(
      "--static-dir",
      project.at("dist"),
      "--base-path",
      "/app",
    );
    await checkPages(gateway.url);
  },
);

testNpmExample(
  "vite build fails if a SENSITIVE value is in the output, and names the variable",
  async () => {
    await using project = await NpmExample.make("vite-8", {
      ...filesOf(),
      "src/main.js": "alert('example-map-key')",
    });
    const { success, output } = await project.run("vite", "build");
    assertEquals(success, false);
    assertStringIncludes(output, ".js: the value of MAP_KEY");
  },
);

testNpmExample(
  "a restart of Vite, with a change during it: an open page misses nothing",
  async (browser) => {
    await using project = await NpmExample.make("vite-8", filesOf());
    await using vite = await project.startVite();
    const page = new ExamplePage(await browser.open("about:blank"));
    // Vite's client would reload the page after the restart.
    await page.page.route(
      "**/@vite/client",
      (route) => route.fulfill({ contentType: "text/javascript", body: "" }),
    );
    await page.page.goto(vite.url);
    await page.check((from, to) => project.edit("app.env", from, to));
    await project.edit("vite.config.js", "plugins", "appType: 'spa', plugins");
    await project.edit("app.env", "Good morning", "Good night");
    await vite.printed("server restarted");
    await page.shows("h1", "Good night");
    await project.edit("app.env", "Good night", "Good morning");
    await page.shows("h1", "Good morning");
    assertEquals(await page.isMarked(), true);
  },
);

testNpmExample("HTTPS and server.proxy", async (browser) => {
  await using api = serveLocally(() => new Response("from the API"));
  const tls = new URL("../content/proxy/tls/", import.meta.url);
  await using project = await NpmExample.make("vite-8", {
    ...filesOf(`server: {
  https: { cert: readFileSync("localhost.crt"), key: readFileSync("localhost.key") },
  proxy: { "/api": "${api.url}" },
},`),
    "localhost.crt": await Deno.readTextFile(new URL("localhost.crt", tls)),
    "localhost.key": await Deno.readTextFile(new URL("localhost.key", tls)),
  });
  await project.edit(
    "vite.config.js",
    /^/,
    'import { readFileSync } from "node:fs";\n',
  );
  await using vite = await project.startVite();
  assertEquals(new URL(vite.url).protocol, "https:");
  const page = new ExamplePage(
    await browser.open("about:blank", { ignoreHTTPSErrors: true }),
  );
  await page.page.goto(vite.url);
  await page.check((from, to) => project.edit("app.env", from, to));
  assertEquals(
    await page.page.evaluate(
      "fetch('/api/any').then((response) => response.text())",
    ),
    "from the API",
  );
});

testNpmExample(
  "middleware mode: a server of one's own renders pages with transformIndexHtml()",
  async (browser) => {
    await using project = await NpmExample.make("vite-8", {
      ...filesOf(),
      "src/server.js": `import { get } from "@rep/gateway/client";
export const render = () => "<p>Rendered " + get("TITLE", "nothing") + "</p>";
`,
      "server.js": `import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createServer as createViteServer } from "vite";

const server = createServer();
const vite = await createViteServer({ server: { middlewareMode: true, hmr: { server } }, appType: "custom" });
server.on("request", (request, response) => {
  vite.middlewares(request, response, async () => {
    const { render } = await vite.ssrLoadModule("/src/server.js");
    const page = await vite.transformIndexHtml(request.url, await readFile("index.html", "utf8"));
    response.writeHead(200, { "content-type": "text/html" }).end(page.replace("<!--server-->", render()));
  });
});
server.listen(0, "127.0.0.1", () => console.log("Local: http://127.0.0.1:" + server.address().port));
`,
    });
    await using server = await project.startProgram("server.js");
    const page = await checkPage(browser, project, `${server.url}/any/path`);
    await page.shows("p", "Rendered Hello from the gateway");
  },
);

/** A test that shows whether the client is replaced, in the hooks as well, with a title that must then be there. */
const unitTest = (title = "Set by a test") =>
  `import { get } from "@rep/gateway/client";
import { setVariables } from "@rep/gateway/testing";
import { useRep } from "@rep/gateway/vue";
import { expect, test } from "vitest";

test("a title", () => {
  expect(document.title).toBe(""); // there is one
  setVariables({ TITLE: "Set by a test" });
  expect([get("TITLE"), useRep("TITLE").value]).toEqual(["${title}", "${title}"]);
});
`;
const JSDOM = `environment: "jsdom"`;
const OWN_DOUBLE = {
  "own.js": 'export const get = () => "Own";\n' +
    "export const onChange = () => () => {};\nexport const getAll = () => ({});\n" +
    "export const getSecure = get;\n",
};
const OWN_ALIAS =
  'find: /^@rep\\/gateway\\/client$/, replacement: import.meta.dirname + "/own.js"';

/** Projects by what they show: options of Vite, and other files. */
const UNIT_TESTS: Readonly<
  Record<string, { options: string; files?: Record<string, string> }>
> = {
  "the plugin alone": { options: `test: { ${JSDOM} },` },
  "everything inline": {
    options: `test: { ${JSDOM}, server: { deps: { inline: true } } },`,
  },
  "projects": {
    options:
      `test: { projects: [{ extends: true, test: { name: "a", ${JSDOM} } }] },`,
  },
  "an alias of the user": {
    options: `test: { ${JSDOM}, alias: [{ ${OWN_ALIAS} }] },`,
    files: { ...OWN_DOUBLE, "src/title.test.js": unitTest("Own") },
  },
  "an alias of the user for everything": {
    options: `resolve: { alias: [{ ${OWN_ALIAS} }] }, test: { ${JSDOM} },`,
    files: { ...OWN_DOUBLE, "src/title.test.js": unitTest("Own") },
  },
};

async function tryUnitTests(
  packages: Parameters<typeof NpmExample.make>[0],
  what: string,
  options: string,
  files: Record<string, string> = {},
): Promise<void> {
  await using project = await NpmExample.make(packages, {
    ...filesOf(options),
    "src/title.test.js": unitTest(),
    ...files,
  });
  const { success, output } = await project.run("vitest", "run");
  assertEquals(success, true, `${packages}, ${what}: ${output}`);
  assertStringIncludes(output, "1 passed");
  assertEquals(output.includes("[rep]"), false, output); // no gateway has started
}

testNpmExample(
  "unit tests with Vitest replace the client by its double, in the hooks as well, unless the user has an alias for it",
  async () => {
    const entries = Object.entries(UNIT_TESTS);
    for (const [what, { options, files }] of entries) {
      await tryUnitTests("vite-8", what, options, files);
    }
    const guide = await Deno.readTextFile("docs/testing.md");
    const [, options = ""] = /For Vitest[^]*?```ts ignore\n([^]*?)```/
      .exec(guide) ?? [];
    await tryUnitTests("vite-8", "docs/testing.md", options);
  },
);

testNpmExample(
  "unit tests with older versions of Vitest replace the client by its double, also in a workspace",
  async () => {
    const { options } = UNIT_TESTS["the plugin alone"]!;
    const workspace = {
      "vitest.workspace.js":
        `export default [{ extends: "./vite.config.js", test: { name: "a", ${JSDOM} } }];\n`,
    };
    await tryUnitTests("vitest-2.1.9", "alone", options);
    await tryUnitTests("vitest-2.1.9", "workspace", "", workspace);
    await tryUnitTests("vitest-3.2.7", "alone", options);
    await tryUnitTests("vitest-3.2.7", "workspace", "", workspace);
    const { options: projects } = UNIT_TESTS["projects"]!;
    await tryUnitTests("vitest-3.2.7", "projects", projects);
    await tryUnitTests("vitest-4.1.12", "alone", options);
  },
);
