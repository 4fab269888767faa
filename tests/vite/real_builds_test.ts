/** Two builds of Vite, one after the other, in a browser: the notice, and a lazy chunk that is gone. */
import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { startCommand } from "../_command.ts";
import { NpmExample, testNpmExample } from "../_npm_example.ts";
import { until } from "../_time.ts";
import { findFreePort } from "../../tools/free_port.ts";

const FILES = {
  "index.html":
    `<!doctype html><html><head><link rel="icon" href="data:,"></head><body>
<h1></h1><button></button><script type="module" src="/src/main.js"></script></body></html>`,
  "src/main.js": `import { onNewBuild } from "@rep/gateway/builds";
document.querySelector("h1").textContent = "build one";
window.told = [];
onNewBuild((...ids) => window.told.push(ids));
addEventListener("rep:reload", (event) => window.refuses && event.preventDefault());
window.open = () => import("./other.js").catch((error) => window.failed = String(error));
document.querySelector("button").onclick = () => import("./lazy.js").catch((error) => window.failed = String(error));
`,
  "src/other.js": "document.title = 'other one';\n",
  "src/lazy.js": "document.querySelector('h1').textContent = 'lazy one';\n",
  "vite.config.js": `import { rep } from "@rep/gateway/vite";
export default { plugins: [rep()] };
`,
};

async function build(project: NpmExample): Promise<void> {
  const { success, output } = await project.run("vite", "build");
  assertEquals(success, true, output);
}

async function start(project: NpmExample, port: number) {
  return await startCommand([
    `--static-dir=${project.at("dist")}`,
    `--port=${port}`,
    "--immutable=assets/*",
    "--hot-reload",
    "--kv=:memory:",
    "--drain=0s",
  ]);
}

function read<T>(page: Page, expression: string): Promise<T> {
  return page.evaluate(expression);
}

const BUILD = "document.getElementById('__rep__').dataset.repBuild";

for (const version of ["vite-6", "vite-8"] as const) {
  testNpmExample(
    `${version}: an open page is told of a new build once, and reloads once when a lazy chunk is gone, unless the app refuses`,
    async (browser) => {
      await using project = await NpmExample.make(version, FILES);
      await build(project);
      const html = await Deno.readTextFile(project.at("dist/index.html"));
      assertEquals(html.match(/<script/g)?.length, 1, html); // nothing inline
      const port = findFreePort();
      const first = await start(project, port);
      const page = await browser.open(first.url);
      const refusing = await browser.open(first.url);
      const offline = await browser.open(first.url);
      await offline.context().setOffline(true);
      const one = await read<string>(page, BUILD);
      await first[Symbol.asyncDispose]();
      await project.edit("src/lazy.js", "lazy one", "lazy two");
      await project.edit("src/main.js", "build one", "build two");
      await build(project);
      await using second = await start(project, port);
      await page.waitForFunction("window.told.length > 0");
      const [[two, old] = []] = await read<string[][]>(page, "window.told");
      assertEquals(old, one);
      assertNotEquals(two, one);

      await read(refusing, "window.refuses = true");
      const answered = refusing.waitForResponse((it) =>
        it.url() === `${second.url}/`
      );
      await refusing.click("button");
      await (await answered).finished();
      await refusing.waitForFunction("window.failed");
      assertEquals(await refusing.textContent("h1"), "build one");

      await offline.click("button");
      await offline.waitForFunction("window.failed");
      assertEquals(await offline.textContent("h1"), "build one");

      await page.click("button");
      await page.waitForFunction(
        "document.querySelector('h1').textContent === 'build two'",
      );
      assertEquals(await read(page, BUILD), two);
      assertEquals(await read(page, "window.told"), []);
      await page.click("button");
      await page.waitForFunction(
        "document.querySelector('h1').textContent === 'lazy two'",
      );

      // At most once in ten minutes, although another build answers.
      await project.edit("src/main.js", "build two", "build three");
      await project.edit("src/other.js", "other one", "other three");
      await build(project);
      await read(page, "window.open()");
      assertNotEquals(await read(page, "window.failed"), undefined);
      const readHtml = async () => await (await fetch(second.url)).text();
      const isOld = async () => (await readHtml()).includes(two!);
      await until(async () => !await isOld()); // the gateway looks at its files once a second
      assertEquals(await page.textContent("h1"), "lazy two");
    },
  );
}

for (const version of ["vite-6", "vite-7", "vite-8"] as const) {
  testNpmExample(
    `${version}: an app is built if only the package with its configuration depends on the gateway`,
    async () => {
      const { "src/other.js": lazy } = FILES;
      await using project = await NpmExample.make(version, {
        "index.html": FILES["index.html"],
        "src/main.js": `import("./lazy.js");`,
        "src/lazy.js": lazy,
        "config/index.js": `export { rep } from "@rep/gateway/vite";`,
        "config/package.json": '{"type":"module"}',
        "vite.config.js": `import { rep } from "./config/index.js";
export default { plugins: [rep()] };
`,
      });
      await Deno.mkdir(project.at("config/node_modules/@rep"), {
        recursive: true,
      });
      await Deno.rename(
        project.at("node_modules/@rep/gateway"),
        project.at("config/node_modules/@rep/gateway"),
      );
      const args = version === "vite-6" ? [] : ["--configLoader", "native"];
      const { success, output } = await project.run("vite", "build", ...args);
      assertEquals(success, true, output);
      let code = "";
      for await (const { name } of Deno.readDir(project.at("dist/assets"))) {
        code += await Deno.readTextFile(project.at(`dist/assets/${name}`));
      }
      assertMatch(code, /rep:reload/);
    },
  );
}
