import {
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { stdFlags } from "../../tools/std.ts";
import { runDeno } from "../_command.ts";
import { TempDirectory } from "../_temp.ts";
import { astro, nuxt, svelteKitHandle } from "../../src/server/mod.ts";

const PAGE = "<!doctype html><html><head></head></html>";

function renderPage(): Response {
  return new Response(PAGE, { headers: { "content-type": "text/html" } });
}

Deno.test("svelteKitHandle() leaves pages as they are in a build and in development", async () => {
  const event = { request: new Request("http://localhost/") };
  for (
    const environment of [{ building: true, dev: false }, {
      building: false,
      dev: true,
    }]
  ) {
    const handle = svelteKitHandle(environment, { envFile: "missing.env" });
    const page = await handle({ event, resolve: renderPage });
    assertEquals(await page.text(), PAGE);
  }
});

/** What starts a gateway with its server. A server of Nuxt survives what nobody handles, and answers 500 to each request. */
const STARTS = {
  svelteKitHandle: "svelteKitHandle({ building: false, dev: false }, options);",
  nitroPlugin:
    `addEventListener("unhandledrejection", (event) => event.preventDefault());
nitroPlugin(options)({ h3App: {}, hooks: { hook() {} } });`,
};

for (const [name, start] of Object.entries(STARTS)) {
  Deno.test(`${name}() ends a server whose file is missing, with one line that names the option`, async () => {
    const module = import.meta.resolve("../../src/server/mod.ts");
    const code = `import { ${name} } from "${module}";
const options = { envFile: "/lost/app.env" };
${start}
setInterval(() => {}, 1_000);
setTimeout(() => Deno.exit(0), 10_000);`;
    await using folder = await TempDirectory.make({ "main.ts": code });
    const { code: exitCode, stderr } = await runDeno([
      "run",
      ...await stdFlags(),
      "--config=deno.json",
      "--no-check",
      "-A",
      "--quiet",
      folder.at("main.ts"),
    ]);
    assertEquals(exitCode, 1);
    assertMatch(
      stderr,
      /^Cannot read envFile "\/lost\/app.env": .*required: false.*\n$/,
    );
  });
}

Deno.test("no file of an example for a framework needs app.env, which is not in the repository of an app", async () => {
  const files = await filesBelow("examples/frameworks");
  let named = 0;
  for (const file of files) {
    for (const [, option] of file.matchAll(/envFile: (.+)/g)) {
      named++;
      assertStringIncludes(
        option ?? "",
        '{ path: "app.env", required: false }',
      );
    }
  }
  assertNotEquals(named, 0);
});

/** Returns the texts of all files in a directory and below it. */
async function filesBelow(directory: string): Promise<string[]> {
  const texts: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(directory)) {
    const path = `${directory}/${name}`;
    if (isDirectory) texts.push(...await filesBelow(path));
    else texts.push(await Deno.readTextFile(path));
  }
  return texts;
}

Deno.test("astro() adds the plugin always, and its middleware, with the options, to builds only", async () => {
  for (const command of ["dev", "build"] as const) {
    const entries: string[] = [];
    // deno-lint-ignore no-explicit-any -- Vite's plugins
    let plugins: any[] = [];
    await astro({ envFile: "app.env" }, { types: false }).hooks
      ["astro:config:setup"]({
        command,
        addMiddleware: ({ entrypoint }) => entries.push(entrypoint),
        updateConfig: ({ vite }) => plugins = vite.plugins.flat(),
      });
    const names = ["rep", "rep:reads", "rep:middleware"];
    assertEquals(plugins.map(({ name }) => name), names);
    assertEquals(entries.length, command === "build" ? 1 : 0);
    if (entries[0] === undefined) continue;
    const module = plugins[2];
    assertMatch(
      module.load(module.resolveId(entries[0])),
      /astroMiddleware\(\{"envFile":"app.env"\}\)/,
    );
    assertEquals(module.resolveId("other"), undefined);
  }
});

Deno.test("nuxt() adds a plugin with the options to the server, beside those that are there", () => {
  const config = { plugins: ["own"], virtual: { "#own": "" } };
  nuxt({ envFile: "app.env" })({}, {
    options: { buildDir: "/app/.nuxt" },
    hook: (_name, listener) => listener(config),
  });
  assertEquals(config.plugins, ["own", "/app/.nuxt/rep-gateway.mjs"]);
  assertMatch(
    (config.virtual as Record<string, string>)["/app/.nuxt/rep-gateway.mjs"] ??
      "",
    /import\.meta\.prerender.*nitroPlugin\(\{"envFile":"app.env"\}\)/,
  );
});
