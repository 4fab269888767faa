import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";
import { relative } from "@std/path/relative";
import fs from "node:fs/promises";
import { isMissing, parseEnvFile } from "../../files/read_environment.ts";
import { detectSecret } from "../../core/config/variables/guardrails.ts";
import type { VariableType } from "../../core/config/variables/manifest.ts";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import {
  environmentName,
  type Tier,
} from "../../core/config/variables/tiers.ts";
import { DEFAULT_MANIFEST } from "../sources/variable_sources.ts";
import { listBuildFiles } from "./build_files.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_table.ts";
import { escapeInvisible } from "../../core/values/visible_text.ts";
import {
  findLinkedPackages,
  findUpwards,
  findWorkspaceRoot,
} from "./workspace.ts";
import { writeFile } from "./write_file.ts";

/** A variable that a build tool writes into pages. */
interface FoundVariable {
  /** The name without the build tool's prefix. */
  readonly name: string;
  /** The name with the prefix, and the first place where it was found. */
  readonly origin: string;
  /** `undefined` if no env file sets it. */
  readonly value: string | undefined;
  readonly tier: Tier;
  /** Why it is not PUBLIC. */
  readonly reason: string | undefined;
}

/** The name of the env file in the guides. */
const DEFAULT_ENV_FILE = "app.env";

/** Writes a manifest and an env file with the variables that an app reads from its build tool. */
export async function init(
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const manifest = line.manifest ?? DEFAULT_MANIFEST;
  const envFile = line["env-file"][0] ?? DEFAULT_ENV_FILE;
  const found = await findVariables(line.args, io);
  const variables = found.length > 0 ? found : [EXAMPLE];
  const files: readonly NewFile[] = [
    {
      flag: "--manifest",
      path: manifest,
      text: await schemaComment(manifest) + renderManifest(variables),
    },
    { flag: "--env-file", path: envFile, text: renderEnvFile(variables) },
  ];
  if (!line.force) await rejectExisting(files);
  for (const { flag, path, text } of files) {
    await writeFile(flag, path, text);
    io.print(escapeInvisible(`${path}: written`));
  }
  printNotes(found, envFile, io);
  io.printError(nextSteps(line.args[0] ?? ".", manifest, envFile));
}

/** The variable that a project without variables gets. */
const EXAMPLE: FoundVariable = {
  name: "TITLE",
  origin: "an example",
  value: "Hello",
  tier: "public",
  reason: undefined,
};

/**
 * The prefixes with which Vite, Create React App, Next.js, Nuxt, Vue CLI and Astro mark variables for pages. Names
 * without them are for servers. The search finds names anywhere in a source, not only after `import.meta.env` and
 * `process.env`, since apps may pass these objects on. Only Astro's PUBLIC_ is too common for that.
 */
const PREFIX = "(?:VITE_|REACT_APP_|NEXT_PUBLIC_|NUXT_PUBLIC_|VUE_APP_)";
const IN_SOURCE = new RegExp(
  `\\b(?:${PREFIX}|(?<=\\bimport\\.meta\\.env\\.)PUBLIC_)(\\w+)`,
  "g",
);
const IN_ENV_FILE = new RegExp(`^(?:${PREFIX}|PUBLIC_)(\\w+)$`);

const SOURCE_FILE = /\.(?:[cm]?[jt]sx?|vue|svelte|astro|html)$/;
const SKIPPED_DIRECTORY = /^(?:\..*|node_modules|dist|build|out|coverage)$/;

/** The env files that Vite reads in development. The later ones take precedence. */
const ENV_FILES = [
  ".env",
  ".env.local",
  ".env.development",
  ".env.development.local",
];

/** Names that are probably those of secrets. */
const SECRET_NAME =
  /(?:^|_)(?:SECRET|PASSWORD|PASSWD|CREDENTIALS?|TOKEN|PRIVATE_KEY)(?:_|$)/;

/**
 * Finds the variables in the sources and in those of the workspace's packages that the app uses, and in the env files
 * beside the sources and in the current directory. The root of the workspace has values of these variables only, since
 * its other ones may be those of other apps.
 */
async function findVariables(
  directories: readonly string[],
  io: CommandIo,
): Promise<FoundVariable[]> {
  const origins = new Map<string, string>();
  for (const directory of directories.length > 0 ? directories : ["."]) {
    await findInSources(directory, origins);
  }
  const values = new Map<string, string>();
  const apps = new Set([".", ...directories]);
  const roots = new Set<string>();
  for (const app of apps) {
    for (const directory of await findLinkedPackages(app)) {
      await findInSources(relative(".", directory) || ".", origins);
    }
    const root = await findWorkspaceRoot(app);
    if (root !== undefined) roots.add(relative(".", root) || ".");
  }
  for (const root of roots.difference(apps)) {
    await findInEnvFiles(root, new Map(), values, io);
  }
  for (const app of apps) await findInEnvFiles(app, origins, values, io);
  const names = [...origins.keys()].sort();
  return names.map((name) => {
    const value = values.get(name) || undefined;
    const reason = secretReason(name, value);
    const tier = reason === undefined ? "public" : "sensitive";
    return { name, origin: origins.get(name) ?? "", value, tier, reason };
  });
}

async function findInSources(
  directory: string,
  origins: Map<string, string>,
): Promise<void> {
  const isSkipped = (name: string) => SKIPPED_DIRECTORY.test(name);
  const files = await listBuildFiles(directory, isSkipped);
  for (const file of files.filter((path) => SOURCE_FILE.test(path))) {
    const text = await fs.readFile(file, "utf8");
    for (const { 0: origin, 1: name = "", index } of text.matchAll(IN_SOURCE)) {
      if (origins.has(name)) continue;
      const line = text.slice(0, index).split("\n").length;
      origins.set(name, `${origin}, ${file}:${line}`);
    }
  }
}

async function findInEnvFiles(
  directory: string,
  origins: Map<string, string>,
  values: Map<string, string>,
  io: CommandIo,
): Promise<void> {
  for (const name of ENV_FILES) {
    await findInEnvFile(join(directory, name), origins, values, io);
  }
}

async function findInEnvFile(
  path: string,
  origins: Map<string, string>,
  values: Map<string, string>,
  io: CommandIo,
): Promise<void> {
  const text = await readIfThere(path);
  if (text === undefined) return;
  const { variables, lines, issues } = parseEnvFile(text);
  for (const { line, detail } of issues) {
    io.printError(`Warning: ${path}:${line} is left out: ${detail}`);
  }
  for (const [origin, value] of variables) {
    const [, name] = IN_ENV_FILE.exec(origin) ?? [];
    if (name === undefined) continue;
    const place = `${path}:${lines.get(origin)}`;
    if (!origins.has(name)) origins.set(name, `${origin}, ${place}`);
    values.set(name, value.replaceAll("\\$", "$")); // as the build tools do
    if (!/(?<!\\)\$\{?[A-Za-z_]/.test(value)) continue;
    io.printError(
      `Warning: ${place} refers to another variable, which is not replaced`,
    );
  }
}

function secretReason(name: string, value = ""): string | undefined {
  const detection = detectSecret(value);
  if (detection !== undefined) return detection.detail;
  return SECRET_NAME.test(name) ? "its name is that of a secret" : undefined;
}

const SCHEMA = "node_modules/@rep/gateway/schema/rep.schema.json";

/** Returns the comment with which editors check a manifest; none if the package is not installed. */
async function schemaComment(manifest: string): Promise<string> {
  const directory = dirname(manifest);
  const schema = await findUpwards(SCHEMA, directory);
  if (schema === undefined) return "";
  const path = relative(directory, schema).replaceAll("\\", "/");
  const url = path.startsWith(".") ? path : `./${path}`;
  return `# yaml-language-server: $schema=${url}\n`;
}

function renderManifest(variables: readonly FoundVariable[]): string {
  const lines = variables.map(({ name, origin, value, tier }) => {
    const key = renderKey(name);
    const required = value === undefined ? "" : ", required: true";
    const fields = `tier: ${tier}, type: ${typeOf(value)}${required}`;
    return `  ${key}: { ${fields} } # ${escapeInvisible(origin)}\n`;
  });
  return `# The variables of the app: names, tiers and types. Their values are elsewhere.
version: "0.1.0"

variables:
${lines.join("")}`;
}

/** Quotes a name that YAML would take for a number, a boolean or nothing. */
function renderKey(name: string): string {
  const isText = /^[A-Z_]/i.test(name) && !/^(?:true|false|null)$/i.test(name);
  return isText ? name : JSON.stringify(name);
}

/** Returns the type that a value probably has. A code such as `01234` is not a number. */
function typeOf(value = ""): VariableType {
  if (/^(?:true|false)$/.test(value)) return "boolean";
  if (/^-?(?:0|[1-9]\d{0,14})(?:\.\d+)?$/.test(value)) return "number";
  return "string";
}

function renderEnvFile(variables: readonly FoundVariable[]): string {
  const lines = variables.map((variable) => {
    const name = environmentName(variable);
    const { value } = variable;
    return value === undefined ? `# ${name}=\n` : `${name}=${quote(value)}\n`;
  });
  return `# Values for development. Keep this file out of the repository.
${lines.join("")}`;
}

/** Quotes a value of an env file, if it needs quotes. */
function quote(value: string): string {
  if (/^[\w.,:/@%+=?&-]+$/.test(value)) return value;
  return JSON.stringify(value);
}

/** A file to write, and the option that names it. */
interface NewFile {
  readonly flag: string;
  readonly path: string;
  readonly text: string;
}

/** @throws {ConfigurationError} If a file exists, and has another text. */
async function rejectExisting(files: readonly NewFile[]): Promise<void> {
  const issues: string[] = [];
  for (const { flag, path, text } of files) {
    const existing = await readIfThere(path);
    if (existing === undefined || existing === text) continue;
    issues.push(
      `Cannot write "${path}": it exists; write another file with ${flag}, or replace its content with --force`,
    );
  }
  if (issues.length > 0) throw new ConfigurationError(issues);
}

/** Returns the text of a file; `undefined` if there is none. */
async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await fs.readFile(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function printNotes(
  found: readonly FoundVariable[],
  envFile: string,
  io: CommandIo,
): void {
  for (const { name, value, reason } of found) {
    if (reason !== undefined) {
      io.printError(
        `Warning: ${name} is SENSITIVE, since ${reason}: pages read it with getSecure(), and previous builds contain it`,
      );
    }
    if (value === undefined) {
      io.printError(`${name} has no value: set it in ${envFile}`);
    }
  }
  io.printError(`Found ${found.length} variables of pages`);
}

/** Returns what is left to do in an app with these files. */
function nextSteps(app: string, manifest: string, envFile: string): string {
  const manifestPath = JSON.stringify(relative(app, manifest));
  const envPath = JSON.stringify(relative(app, envFile));
  return `Next: add ${envFile} to .gitignore, and run npm install @rep/gateway
With Vite, add this to its configuration; otherwise, read values with get() from @rep/gateway/client:
  import { rep } from "@rep/gateway/vite";
  plugins: [rep({ manifest: ${manifestPath}, envFile: ${envPath}, env: true })]`;
}
