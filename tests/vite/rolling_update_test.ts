/** A rolling update from one build of Vite to the next behind HAProxy, in a browser: first visits half way through it, and a tab that is older. */
import { assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { findFreePort } from "../../tools/free_port.ts";
import { type RunningCommand, startCommand } from "../_command.ts";
import { NpmExample, testNpmExample } from "../_npm_example.ts";
import {
  atPorts,
  findProxy,
  HAPROXY,
  readConfig,
  replaceAll,
  RunningProxy,
} from "../_proxy.ts";

const FILES = {
  "index.html":
    `<!doctype html><html><head><link rel="icon" href="data:,"></head><body>
<h1></h1><button></button><script type="module" src="/src/main.js"></script></body></html>`,
  "src/main.js":
    `const open = (lazy) => lazy.catch((error) => window.failed = String(error));
document.querySelector("h1").textContent = "build one";
document.querySelector("button").onclick = () => open(import("./lazy.js"));
window.openOther = () => open(import("./other.js"));
`,
  "src/lazy.js": "document.querySelector('h1').textContent = 'lazy one';\n",
  "src/other.js": "document.querySelector('h1').textContent = 'other one';\n",
};

const FIRST_VISITS = 20;
const ASKS = "use_backend immutable if";

/** What helps, alone: the shipped proxy asks the other gateway for a file, or both gateways keep their files in a directory. */
const HELPS = [
  { name: "HAProxy asks the other gateway", asks: true, keeps: false },
  { name: "--keep-builds on a shared directory", asks: false, keeps: true },
];

/** Builds the app twice, and returns the directories. */
async function buildTwice(project: NpmExample) {
  const build = async (name: string) => {
    const args = ["build", "--outDir", name];
    const { success, output } = await project.run("vite", ...args);
    assertEquals(success, true, output);
    return project.at(name);
  };
  const one = await build("one");
  await project.edit("src/main.js", "build one", "build two");
  await project.edit("src/lazy.js", "lazy one", "lazy two");
  await project.edit("src/other.js", "other one", "other two");
  return { one, two: await build("two") };
}

async function start(
  directory: string,
  [port, healthPort]: readonly number[],
  flags: readonly string[],
): Promise<RunningCommand> {
  return await startCommand([
    `--static-dir=${directory}`,
    `--port=${port}`,
    `--health-port=${healthPort}`,
    "--immutable=assets/*",
    "--trusted-proxies=127.0.0.1",
    "--kv=:memory:",
    "--drain=0s",
    ...flags,
  ]);
}

/** Waits until the app has shown itself, or its entry has failed: then it stays white. */
async function titleOf(page: Page): Promise<string> {
  await page.waitForLoadState("load");
  return await page.textContent("h1") ?? "";
}

const haproxy = await findProxy(HAPROXY);

for (const { name, asks, keeps } of HELPS) {
  const title =
    `half way through an update, ${FIRST_VISITS} of ${FIRST_VISITS} first visits are not white, and an older tab opens its lazy route: ${name}`;
  if (haproxy === undefined) {
    const reason = `${title} (HAProxy is not installed)`;
    Deno.test({ name: reason, ignore: true, fn() {} });
    continue;
  }
  testNpmExample(title, async (browser) => {
    await using project = await NpmExample.make("vite-8", FILES);
    const { one, two } = await buildTwice(project);
    const flags = keeps ? [`--keep-builds=${project.at("kept")}`] : [];
    const shipped = replaceAll(await readConfig(HAPROXY), [
      ["#server second", "server second"],
      // In turn, all pages of visits with two requests would come from the same server.
      ["option httpchk", "balance random\n  option httpchk"],
      ...asks ? [] : [[ASKS, `#${ASKS}`] as const],
    ]);
    const a = [findFreePort(), findFreePort()];
    const b = [findFreePort(), findFreePort()];
    const ports = new Map(
      [8080, 8081, 8090, 8091].map((port, index) =>
        [port, [...a, ...b][index]!] as const
      ),
    );
    const first = await start(one, a, flags);
    await using second = await start(one, b, flags);
    const config = atPorts(shipped, ports)
      .replace(/check port \d+/g, "$& inter 100ms fall 1 rise 1")
      .replace("timeout connect 5s", "$&\n  timeout check 30s"); // instead of the 100 ms, which a busy gateway may need
    await using proxy = await RunningProxy.start(HAPROXY, haproxy, config);
    const url = `https://localhost:${proxy.port}/`;
    const open = () => browser.open(url, { ignoreHTTPSErrors: true });

    const old = await open();
    assertEquals(await titleOf(old), "build one");
    await first[Symbol.asyncDispose]();
    await proxy.printed("Server gateway/gateway is DOWN");
    await using _updated = await start(two, a, flags);
    await proxy.printed("Server gateway/gateway is UP");

    const titles: string[] = [];
    for (let visit = 0; visit < FIRST_VISITS; visit++) {
      const page = await open();
      titles.push(await titleOf(page));
      await page.context().close();
    }
    const shown = Object.groupBy(titles, (it) => it);
    assertEquals(Object.keys(shown).toSorted(), ["build one", "build two"]);
    assertEquals(titles.length, FIRST_VISITS);
    await old.click("button");
    await old.waitForFunction(
      "window.failed || /lazy/.test(document.body.textContent)",
    );
    assertEquals(await titleOf(old), "lazy one");

    // After the update, only what is kept has the old build.
    await second[Symbol.asyncDispose]();
    await proxy.printed("Server gateway/second is DOWN");
    await old.evaluate("window.openOther()");
    assertEquals(await titleOf(old), keeps ? "other one" : "lazy one");
    assertEquals(await old.evaluate("!window.failed"), keeps);
  });
}
