/**
 * Makes an app of each framework from its newest template, adds the plugin and the example, and tries its servers in a
 * browser: the page shows the value, a SENSITIVE value can be read, a change arrives without a reload.
 *
 *     deno task check:frameworks # minutes, and some hundred MB from npm
 *     deno task check:frameworks --only astro # the frameworks whose names contain this
 *     deno task check:frameworks --templates DIR # copies DIR/<example> where a template cannot be downloaded
 *
 * It needs Node.js 22.12 or later, and a browser, see `find_browser.ts`. It prints a table, and exits with 1 if something
 * does not work.
 */
import { parseArgs } from "@std/cli/parse-args";
import { dirname, join } from "@std/path";
import type { Browser } from "playwright-core";
import { findFreePort } from "../free_port.ts";
import { launchBrowser } from "../launch_browser.ts";
import { buildNpmPackage } from "../npm_package.ts";
import { stdFlags } from "../std.ts";
import { type Framework, FRAMEWORKS } from "./frameworks.ts";
import { run, Server } from "./shell.ts";
import {
  ENV_FILE,
  MANIFEST,
  TITLE,
  tryOtherRoute,
  tryPage,
  untilServed,
} from "./try_page.ts";

const ROOT = join(import.meta.dirname ?? ".", "../..");
const MODES = ["development", "preview", "production"] as const;

/** The outcome for a framework. */
interface Outcome {
  readonly name: string;
  readonly commands: number;
  /** How many lines the files add to the template. */
  readonly lines: number;
  /** How long the commands took until everything was built. */
  readonly seconds: number;
  /** By the mode of a server: empty if everything works, otherwise what does not. */
  readonly results: ReadonlyMap<string, string>;
}

/** Where the frameworks are tried. */
interface Workshop {
  readonly folder: string;
  readonly tarball: string;
  readonly templates: string | undefined;
  readonly browser: Browser;
}

async function tryFramework(
  framework: Framework,
  workshop: Workshop,
): Promise<Outcome> {
  const { name, create, install, build } = framework;
  const start = performance.now();
  const folder = await Deno.makeTempDir({ dir: workshop.folder });
  const app = join(folder, "app");
  const template = workshop.templates &&
    join(workshop.templates, framework.example);
  const isCopied = template !== undefined && await exists(template);
  const commands = [
    isCopied ? `cp -r ${template} app && cd app && npm install` : create,
    `cd app && npm install ${workshop.tarball}`,
    ...install === undefined ? [] : [`cd app && ${install}`],
    `cd app && ${build}`,
  ];
  const last = commands.pop()!;
  for (const command of commands) await run(command, folder);
  const lines = await addFiles(framework, app);
  await run(last, folder);
  const seconds = Math.round((performance.now() - start) / 1000);
  const results = await tryServers(framework, app, workshop);
  return { name, commands: commands.length + 1, lines, seconds, results };
}

/** The outcome if there is nothing to try. */
function failure({ name, servers }: Framework, error: Error): Outcome {
  const results = new Map(servers.map(({ mode }) => [mode, error.message]));
  return { name, commands: 0, lines: 0, seconds: 0, results };
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

/** Writes the files of the example, and returns how many of their lines are not in the template. */
async function addFiles(
  { example, only, files = {} }: Framework,
  app: string,
): Promise<number> {
  const all: Record<string, string> = {
    ".rep.yaml": MANIFEST,
    "app.env": ENV_FILE,
    ...files,
  };
  const source = join(ROOT, "examples/frameworks", example);
  for (const name of only ?? await listFiles(source)) {
    all[name] ??= await Deno.readTextFile(join(source, name));
  }
  let lines = 0;
  for (const [name, text] of Object.entries(all)) {
    const path = join(app, name);
    const old = await Deno.readTextFile(path).catch(() => "");
    lines += newLines(text, old);
    await Deno.mkdir(dirname(path), { recursive: true });
    await Deno.writeTextFile(path, text);
  }
  return lines;
}

async function listFiles(folder: string, prefix = ""): Promise<string[]> {
  const names: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (!isDirectory) names.push(prefix + name);
    else names.push(...await listFiles(path, `${prefix}${name}/`));
  }
  return names;
}

function newLines(text: string, old: string): number {
  const known = new Set(old.split("\n").map((line) => line.trim()));
  return text.split("\n").filter((line) => !known.has(line.trim())).length;
}

async function tryServers(
  framework: Framework,
  app: string,
  { browser }: Workshop,
): Promise<Map<string, string>> {
  const results = new Map<string, string>();
  const { servers, outDir } = framework;
  await rejectValues(join(app, outDir));
  const std = (await stdFlags()).join(" ");
  const gateway = `${Deno.execPath()} run ${std} -A main.ts`;
  const env = { CHECKOUT: ROOT, GATEWAY: gateway };
  for (const { mode, command, rendersValues } of servers) {
    const port = String(findFreePort());
    const line = command.replaceAll(/\bPORT\b(?!=)/g, port);
    await using server = new Server(line, app, env);
    const url = `http://127.0.0.1:${port}/`;
    try {
      const envFile = join(app, "app.env");
      await tryPage(browser, {
        url,
        envFile,
        rendersValues: rendersValues ?? framework.rendersValues ?? false,
      });
      if (framework.hasOtherRoute) await tryOtherRoute(browser, url);
      if (mode === "production" && !command.includes("$GATEWAY")) {
        await server[Symbol.asyncDispose]();
        await tryWithoutEnvFile(line, app, url);
      }
      results.set(mode, "");
    } catch (error) {
      const { message } = error as Error;
      results.set(mode, `${message}\n${server.output}`);
    }
  }
  return results;
}

/** Starts a framework's own server as a deployment does: without the env file, with values in the environment. */
async function tryWithoutEnvFile(
  line: string,
  app: string,
  url: string,
): Promise<void> {
  const envFile = join(app, "app.env");
  await Deno.remove(envFile);
  await using server = new Server(line, app, {
    REP_PUBLIC_TITLE: TITLE,
    REP_SENSITIVE_MAP_KEY: "example-map-key",
  });
  try {
    await untilServed(url);
    const html = await (await fetch(url)).text();
    if (!html.includes(TITLE)) throw new Error("no value");
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`without app.env: ${message}\n${server.output}`);
  } finally {
    await Deno.writeTextFile(envFile, ENV_FILE);
  }
}

/** @throws {Error} If a page of a build contains values of the machine that builds. */
async function rejectValues(outDir: string): Promise<void> {
  for (const name of await listFiles(outDir)) {
    if (!name.endsWith(".html")) continue;
    const html = await Deno.readTextFile(join(outDir, name));
    if (!html.includes('id="__rep__"')) continue;
    throw new Error(`Cannot use the build: ${name} has values`);
  }
}

function formatTable(outcomes: readonly Outcome[]): string {
  const rows = outcomes.map(({ name, commands, lines, seconds, results }) => {
    const cells = MODES.map((mode) => {
      const result = results.get(mode);
      return result === undefined ? "–" : result === "" ? "works" : "fails";
    });
    return [name, commands, lines, seconds, ...cells];
  });
  const head = ["framework", "commands", "lines", "seconds", ...MODES];
  return [head, head.map(() => "---"), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function print(text: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
}

async function main(args: string[]): Promise<void> {
  const { only = "", templates } = parseArgs(args, {
    string: ["only", "templates"],
  });
  const chosen = FRAMEWORKS.filter(({ name }) =>
    name.toLowerCase().includes(only.toLowerCase())
  );
  const folder = await Deno.makeTempDir();
  const browser = await launchBrowser();
  const outcomes: Outcome[] = [];
  let isFailed = false;
  try {
    const tarball = await buildNpmPackage(folder);
    const workshop = { folder, tarball, templates, browser };
    for (const framework of chosen) {
      const outcome = await tryFramework(framework, workshop)
        .catch((error) => failure(framework, error));
      outcomes.push(outcome);
      for (const [mode, result] of outcome.results) {
        if (result === "") continue;
        isFailed = true;
        print(`${outcome.name}, ${mode}: ${result}`);
      }
    }
  } finally {
    await browser.close();
    await Deno.remove(folder, { recursive: true });
  }
  print(formatTable(outcomes));
  if (isFailed) Deno.exit(1);
}

if (import.meta.main) await main(Deno.args);
