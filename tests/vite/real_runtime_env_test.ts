/** `env: true` in Vite itself, on Node.js and in a browser. `runtime_env_test.ts` tests the parts with a double. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import type { TestBrowser } from "../_browser.ts";
import { ExamplePage } from "../_example.ts";
import { NpmExample, testNpmExample } from "../_npm_example.ts";

const MANIFEST = `version: "0.1.0"
variables:
  TITLE: { tier: public, required: true }
  VITE_PLAN: { tier: public, type: enum, values: [free, pro], default: free }
  NOTE: { tier: public }
`;

/** Reads variables in every way; `window.read()` reads them again. */
const MAIN = `import { lateTitle } from "./late.ts";
// import.meta.env.VITE_TITLE in a comment
const text: string = "import.meta.env.VITE_TITLE";
const wide = "ä–😀";
const { VITE_TITLE: atStart } = import.meta.env;
const object = import.meta.env, { env } = { env: import.meta.env };
function read() {
  const { VITE_TITLE: destructured, VITE_PLAN: other } = import.meta.env;
  const name = "VITE_TITLE";
  return {
    dot: import.meta.env.VITE_TITLE,
    brackets: import.meta.env["VITE_TITLE"],
    optional: import.meta.env?.VITE_TITLE,
    computed: import.meta.env[name],
    destructured,
    other,
    atStart,
    kept: [object.VITE_TITLE, env["VITE_TITLE"], object.VITE_OTHER, object.DEV].join(),
    late: lateTitle(),
    text: text + wide,
    unset: import.meta.env.VITE_NOTE,
    ofVite: import.meta.env.VITE_OTHER,
    undeclared: import.meta.env.VITE_NONE,
    isDev: import.meta.env.DEV,
    names: Object.keys(import.meta.env).filter((name) => name.startsWith("VITE_")).sort().join(),
  };
}
Object.assign(globalThis, { read });
document.querySelector("h1")!.textContent = import.meta.env.VITE_TITLE;
const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
worker.onmessage = ({ data }) => document.querySelector("output")!.textContent = data;
`;

const FILES = {
  "index.html":
    `<!doctype html><html><head><link rel="icon" href="data:,"></head><body>
<h1></h1><output></output><script type="module" src="/src/main.tsx"></script></body></html>`,
  "src/main.tsx": MAIN,
  "src/late.ts":
    "const atLoad = import.meta.env.VITE_TITLE;\nexport const lateTitle = () => [atLoad, import.meta.env.VITE_TITLE].join();\n",
  "src/worker.ts":
    "postMessage([import.meta.env.VITE_TITLE, import.meta.env.VITE_OTHER].join());\n",
  "src/server.ts": `import { get } from "@rep/gateway/client";
export const read = () => [import.meta.env.VITE_TITLE === get("TITLE"), import.meta.env.VITE_OTHER, import.meta.env.SSR].join();
`,
  ".rep.yaml": MANIFEST,
  "app.env": "REP_PUBLIC_TITLE=Hello\n",
  ".env": "VITE_TITLE=of-this-machine\nVITE_OTHER=other\n",
  "vite.config.js": `import { rep } from "@rep/gateway/vite";
export default { plugins: [rep({ manifest: ".rep.yaml", envFile: "app.env", env: true })] };
`,
};

const IGNORED =
  "[rep] import.meta.env has the gateway's values; Vite's own are ignored: VITE_TITLE";

const UNDECLARED =
  "[rep] src/main.tsx:23: import.meta.env.VITE_NONE is undefined: neither the manifest nor Vite declares it; did you mean VITE_NOTE?";

const IN_WORKER =
  "[rep] src/worker.ts:1: import.meta.env.VITE_TITLE is undefined in workers: expected the page to send the value";

/** What a page reads. @param atStart The title when its modules were loaded. */
function valuesWith(title: string, atStart: string, isDev: boolean) {
  return {
    dot: title,
    brackets: title,
    optional: title,
    computed: title,
    destructured: title,
    other: "free",
    atStart,
    kept: `${title},${title},other,${isDev}`,
    late: `${atStart},${title}`,
    text: "import.meta.env.VITE_TITLEä–😀",
    unset: undefined,
    ofVite: "other",
    undeclared: undefined,
    isDev,
    names: "VITE_NOTE,VITE_OTHER,VITE_PLAN,VITE_TITLE",
  };
}

/** Checks every way to read a variable, before and after a change, which the page hears of without a subscription. */
async function checkReads(
  browser: TestBrowser,
  project: NpmExample,
  url: string,
  isDev: boolean,
) {
  const page = await ExamplePage.open(browser, url);
  await page.shows("output", ",other"); // a worker has no configuration
  const read = () => page.page.evaluate("read()");
  assertEquals(await read(), valuesWith("Hello", "Hello", isDev));
  await page.mark();
  await project.edit("app.env", "Hello", "Changed");
  // The development server reloads the page, which shows what modules read at their start.
  const atStart = isDev ? "Changed" : "Hello";
  await page.page.waitForFunction(
    // While it is reloaded, the page has no read().
    `globalThis.read?.().dot === "Changed" && read().atStart === "${atStart}"`,
  );
  assertEquals(await read(), valuesWith("Changed", atStart, isDev));
  assertEquals([await page.isMarked(), page.errors], [!isDev, []]);
  await project.edit("app.env", "Changed", "Hello");
}

for (const version of ["vite-6", "vite-7", "vite-8"] as const) {
  testNpmExample(
    `${version}: import.meta.env has the variables in development, in builds, and in the preview, current at each read`,
    async (browser) => {
      await using project = await NpmExample.make(version, FILES);
      {
        await using vite = await project.startVite();
        await vite.printed(IGNORED);
        await checkReads(browser, project, vite.url, true);
        await vite.printed(UNDECLARED);
      }
      const { success, output } = await project.run("vite", "build");
      assertEquals(success, true, output);
      assertStringIncludes(output, IGNORED);
      assertStringIncludes(output, UNDECLARED);
      assertStringIncludes(output, IN_WORKER);
      const built = await new Deno.Command("grep", {
        args: ["-rc", "of-this-machine\\|Hello", project.at("dist/assets")],
      }).output();
      assertEquals(built.code, 1); // no line has a value
      await using preview = await project.startVite({ command: "preview" });
      await checkReads(browser, project, preview.url, false);
    },
  );
}

/** Prints what a server reads, in development and in a build. */
const SERVER = `import { build, createServer } from "vite";
const vite = await createServer({ server: { middlewareMode: true }, appType: "custom" });
const developed = await vite.ssrLoadModule("/src/server.ts");
await build({ build: { ssr: "src/server.ts" } });
const built = await import("./dist/server.js");
console.log("Local: http://" + [developed.read(), built.read()]);
setInterval(() => {}, 1000);
`;

testNpmExample(
  "on a server, a read is what get() returns there",
  async () => {
    await using project = await NpmExample.make("vite-8", {
      ...FILES,
      "server.js": SERVER,
    });
    await using server = await project.startProgram("server.js");
    assertEquals(server.url, "http://true,other,true,true,other,true");
  },
);

testNpmExample(
  "other declarations restart Vite, so that open pages have them; HTML cannot have a value",
  async (browser) => {
    await using project = await NpmExample.make("vite-8", {
      ...FILES,
      "src/main.tsx":
        "document.querySelector('h1')!.textContent = String(import.meta.env.VITE_MORE);",
    });
    await using vite = await project.startVite();
    const page = await ExamplePage.open(browser, vite.url);
    await page.shows("h1", "undefined");
    const more = "  MORE: { tier: public, default: Declared }\n  NOTE:";
    await project.edit(".rep.yaml", "  NOTE:", more);
    await page.shows("h1", "Declared");
    await project.edit(
      "index.html",
      "<head>",
      "<head><title>%VITE_MORE%</title>",
    );
    const { success, output } = await project.run("vite", "build");
    assertEquals(success, false, output);
    assertStringIncludes(output, "Cannot replace %VITE_MORE% in HTML");
  },
);

testNpmExample(
  "examples/vite-react reads import.meta.env, with the types of the manifest, and changes nothing but vite.config.ts",
  async (browser) => {
    await using example = await NpmExample.copy("vite-react");
    await example.edit(
      "vite.config.ts",
      '"app.env" }',
      '"app.env", env: true }',
    );
    await Deno.writeTextFile(
      example.at("src/main.tsx"),
      `/// <reference types="vite/client" />
const plan: "free" | "pro" = import.meta.env.VITE_PLAN;
// @ts-expect-error It is not one of the values of the enum.
const other: "basic" = import.meta.env.VITE_PLAN;
document.body.innerHTML = \`<h1>\${import.meta.env.VITE_TITLE} \${plan} \${other}</h1>\`;
`,
    );
    {
      await using vite = await example.startVite();
      const page = await ExamplePage.open(browser, vite.url);
      await page.shows("h1", "Hello from the gateway free free");
    }
    await example.build();
    await using gateway = await example.startGateway(
      "--static-dir",
      example.at("dist"),
    );
    const page = await ExamplePage.open(browser, gateway.url);
    await page.shows("h1", "Hello from the gateway free free");
  },
);

testNpmExample(
  "unit tests with Vitest have its own import.meta.env, which they set as without the plugin",
  async () => {
    await using project = await NpmExample.make("vite-8", {
      ...FILES,
      "src/title.test.ts": `import { expect, test, vi } from "vitest";
import { lateTitle } from "./late.ts";

test("a title", () => {
  expect(lateTitle()).toBe("of-this-machine,of-this-machine");
  vi.stubEnv("VITE_TITLE", "stubbed");
  expect(lateTitle()).toBe("of-this-machine,stubbed");
});
`,
    });
    const { success, output } = await project.run("vitest", "run");
    assertEquals(success, true, output);
  },
);
