import { join } from "@std/path/join";
import fs from "node:fs/promises";
import { parseEnvFile } from "../../core/config/files/read_environment.ts";
import { typeIssue } from "../../core/config/variables/apply_manifest.ts";
import { detectSecret } from "../../core/config/variables/guardrails.ts";
import type { VariableType } from "../../core/config/variables/manifest.ts";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import {
  environmentName,
  type Tier,
} from "../../core/config/variables/tiers.ts";
import { DEFAULT_MANIFEST, missingRead } from "../sources/variable_sources.ts";
import { listBuildFiles } from "./build_files.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_table.ts";
import { escapeInvisible } from "./terminal_text.ts";
import { findRegularFile, writeFile } from "./write_file.ts";

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
    { flag: "--manifest", path: manifest, text: renderManifest(variables) },
    { flag: "--env-file", path: envFile, text: renderEnvFile(variables) },
  ];
  const kept = await askWhatToKeep(files, line.force, io);
  for (const file of files) {
    const action = kept.has(file) ? "kept" : await write(file);
    io.print(escapeInvisible(`${file.path}: ${action}`));
  }
  printNotes(found, envFile, io);
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

/** Finds the variables in the sources, and in the env files beside them and in the current directory. */
async function findVariables(
  directories: readonly string[],
  io: CommandIo,
): Promise<FoundVariable[]> {
  const origins = new Map<string, string>();
  for (const directory of directories.length > 0 ? directories : ["."]) {
    await findInSources(directory, origins);
  }
  const values = new Map<string, string>();
  for (const directory of new Set([".", ...directories])) {
    for (const name of ENV_FILES) {
      await findInEnvFile(join(directory, name), origins, values, io);
    }
  }
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

async function findInEnvFile(
  path: string,
  origins: Map<string, string>,
  values: Map<string, string>,
  io: CommandIo,
): Promise<void> {
  if (await findRegularFile(path) === undefined) return;
  const text = await fs.readFile(path, "utf8");
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
  const url = { tier: "public", type: "url", values: undefined } as const;
  const isUrl = /^https?:/.test(value) && typeIssue(value, url) === undefined;
  return isUrl ? "url" : "string";
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
  const escaped = value.replace(/[\\"]/g, "\\$&").replaceAll("\r", "\\r");
  return `"${escaped.replaceAll("\n", "\\n")}"`;
}

/** A file to write, and the option that names it. */
interface NewFile {
  readonly flag: string;
  readonly path: string;
  readonly text: string;
}

/**
 * Returns the existing files that the user wants to keep.
 *
 * @throws {ConfigurationError} If a file exists and there is no terminal to ask at, or if the permission to read it is
 * missing.
 */
async function askWhatToKeep(
  files: readonly NewFile[],
  force: boolean,
  io: CommandIo,
): Promise<ReadonlySet<NewFile>> {
  const kept = new Set<NewFile>();
  if (force) return kept;
  const issues = files.map(({ flag, path }) => missingRead(flag, path))
    .filter((issue) => issue !== undefined);
  if (issues.length > 0) throw new ConfigurationError(issues); // it is unknown whether they exist
  for (const file of files) {
    const { flag, path, text } = file;
    const existing = await findRegularFile(path);
    if (existing === undefined) continue;
    if (await fs.readFile(path, "utf8") === text) continue;
    const overwrites = await io.confirm(`Overwrite ${path}?`);
    if (overwrites === undefined) {
      throw new ConfigurationError([
        `Cannot write "${path}": it exists; write another file with ${flag}, or replace its content with --force`,
      ]);
    }
    if (!overwrites) kept.add(file);
  }
  return kept;
}

async function write({ flag, path, text }: NewFile): Promise<string> {
  return await writeFile(flag, path, text) ? "written" : "up to date";
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
  const noun = found.length === 1 ? "variable" : "variables";
  const example = found.length === 0 ? "; TITLE is an example" : "";
  io.printError(`Found ${found.length} ${noun} of pages${example}`);
}
