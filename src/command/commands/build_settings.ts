import { join } from "@std/path/join";
import { relative } from "@std/path/relative";
import fs from "node:fs/promises";
import { readPackage } from "./workspace.ts";

/** What the scripts of an app and its configuration of Vite say about its variables. */
export interface BuildSettings {
  /** Vite's `envPrefix`; empty if it is not set. */
  readonly prefixes: readonly string[];
  /** The folder of the env files. */
  readonly envDir: string;
  /** The modes that scripts name. */
  readonly modes: readonly string[];
  /** The script that sets a variable for a build, by the variable's name. */
  readonly scripts: ReadonlyMap<string, string>;
  /** What could not be read. */
  readonly warnings: readonly string[];
}

const MODE = /(?:--mode|\bvite\b[^&|;]* -m)[ =]([\w-]+)/g;
const VITE_CONFIG = /^vite\.config\.[cm]?[jt]s$/;

/** Reads the settings of an app. Vite's configuration is a program: it is searched for texts, and not run. */
export async function readBuildSettings(app: string): Promise<BuildSettings> {
  const names = await fs.readdir(app).catch(() => []); // the search for sources says that it cannot be read
  const file = names.find((name) => VITE_CONFIG.test(name));
  const path = join(app, file ?? ".");
  const config = file === undefined ? "" : await fs.readFile(path, "utf8");
  const prefixes = textsOf("envPrefix", config)
    ?.filter((prefix) => /^\w+$/.test(prefix));
  const folders = textsOf("envDir", config);
  const root = textsOf("root", config) ?? []; // other options have this name, too
  const ofVite = join(app, ...root, ...folders ?? []);
  const isSet = root.length > 0 || folders !== undefined && folders.length > 0;
  const isFound = isSet && await isDirectory(ofVite);
  const envDir = isFound ? relative(".", ofVite) || "." : app;
  const isUnread = folders === undefined || folders.length > 0 && !isFound;
  const unread = [
    ...prefixes === undefined ? ["envPrefix"] : [],
    ...isUnread ? ["envDir"] : [],
  ];
  const warnings = unread.map((option) =>
    `Cannot read ${option} in "${path}": expected its value there, as text; the default is used`
  );
  const { modes, scripts } = await readScripts(app);
  return { prefixes: prefixes ?? [], envDir, modes, scripts, warnings };
}

async function isDirectory(path: string): Promise<boolean> {
  return await fs.stat(path).then((it) => it.isDirectory(), () => false);
}

async function readScripts(app: string) {
  const { scripts = {} } = await readPackage(app);
  const modes: string[] = [];
  const setBy = new Map<string, string>();
  for (const [script, value] of Object.entries(scripts)) {
    const command = String(value); // some write comments as other values
    for (const [, mode = ""] of command.matchAll(MODE)) modes.push(mode);
    if (!/\bbuild\b/.test(`${script} ${command}`)) continue;
    for (const [, name = ""] of command.matchAll(/\b(\w+)=/g)) {
      setBy.set(name, script);
    }
  }
  return { modes, scripts: setBy };
}

/**
 * Returns the texts in the value of an option: one, or those of an array or a call, such as
 * `resolve(__dirname, "..", "..")`. Without the option, there are none; `undefined` if its value has none.
 */
function textsOf(option: string, config: string): string[] | undefined {
  const line = `^(?!\\s*(?://|\\*)).*?\\b${option}["']?\\s*:\\s*`;
  const value = "(\\[[^\\]]*\\]|[\\w.]+\\([^)]*\\)|[^\\n,]*)";
  const found = new RegExp(line + value, "m").exec(config)?.[1];
  if (found === undefined || found === "process.cwd()") return [];
  const quoted = found.matchAll(/(["'`])([^"'`$]+)\1/g);
  const texts = Array.from(quoted, ([, , text = ""]) => text);
  return texts.length > 0 ? texts : undefined;
}
