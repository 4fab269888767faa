import { relative } from "@std/path/relative";
import fs from "node:fs/promises";
import { isMissing } from "../../files/read_environment.ts";
import {
  detectSecret,
  withoutPublicKeys,
} from "../../core/config/variables/guardrails.ts";
import type { VariableType } from "../../core/config/variables/manifest.ts";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import {
  environmentName,
  type Tier,
} from "../../core/config/variables/tiers.ts";
import { DEFAULT_MANIFEST } from "../sources/variable_sources.ts";
import {
  type BuildEnvFile,
  findExample,
  readBuildEnvFiles,
  valuesIn,
} from "./build_env_files.ts";
import { listBuildFiles } from "./build_files.ts";
import { type BuildSettings, readBuildSettings } from "./build_settings.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_table.ts";
import { VERSION } from "../../version.ts";
import { escapeInvisible } from "../../core/values/visible_text.ts";
import { findLinkedPackages, findWorkspaceRoot } from "./workspace.ts";
import { writeFile } from "./write_file.ts";

/** A variable that a build tool writes into pages. */
interface FoundVariable {
  /** The name without the build tool's prefix. */
  readonly name: string;
  /** The name with the prefix, and the first place where it was found. */
  readonly origin: string;
  /** In the order of the modes. */
  readonly values: readonly (string | undefined)[];
  /** Whether every machine has a value in each mode. */
  readonly isRequired: boolean;
  readonly tier: Tier;
  /** Whether it is PUBLIC although it looks like a secret. */
  readonly isAccepted?: boolean;
  /** Whether the manifest leaves it to the build tool. */
  readonly isOut?: boolean;
  /** What was chosen, and why. */
  readonly choice: string;
}

/** The name of the env file in the guides. */
const DEFAULT_ENV_FILE = "app.env";

/** Writes a manifest and env files with the variables that an app reads from its build tool. */
export async function init(
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const manifest = line.manifest ?? DEFAULT_MANIFEST;
  const envFile = line["env-file"][0] ?? DEFAULT_ENV_FILE;
  const { modes, found } = await findVariables(line.args, io);
  const isEmpty = found.every(({ isOut }) => isOut);
  const variables = isEmpty ? [EXAMPLE, ...found] : found;
  const pathOf = (mode: string) =>
    modes.length > 1 ? ofMode(envFile, mode) : envFile;
  const envFiles = modes.map((mode, index) => ({
    flag: "-env-file", // with two dashes, npx takes it for an option of Node.js, which needs an existing file
    path: pathOf(mode),
    text: renderEnvFile(variables, mode, index),
  }));
  const files: readonly NewFile[] = [
    {
      flag: "--manifest",
      path: manifest,
      text: renderManifest(variables),
    },
    ...envFiles,
  ];
  if (!line.force) await rejectExisting(files);
  for (const { flag, path, text } of files) {
    await writeFile(flag, path, text);
    io.print(escapeInvisible(`${path}: written`));
  }
  printNotes(found, envFiles, io);
  io.printError(nextSteps(line.args[0] ?? ".", manifest, pathOf));
}

/** Returns the name of a mode's file: `app.production.env`. */
function ofMode(envFile: string, mode: string): string {
  return envFile.replace(/(\.[^./\\]+)?$/, `.${mode}$1`);
}

/** The mode of Vite's development server. */
const DEVELOPMENT = "development";

/** The variable that a project without variables gets. */
const EXAMPLE: FoundVariable = {
  name: "TITLE",
  origin: "an example",
  values: ["Hello"],
  isRequired: true,
  tier: "public",
  choice: "",
};

/**
 * The prefixes with which Vite, Create React App, Next.js, Nuxt and Vue CLI mark variables for pages. Names without them
 * are for servers. The search finds names anywhere in a source, not only after `import.meta.env` and `process.env`,
 * since apps may pass these objects on.
 */
const PREFIXES = [
  "VITE_",
  "REACT_APP_",
  "NEXT_PUBLIC_",
  "NUXT_PUBLIC_",
  "VUE_APP_",
];

/** Astro's prefix. As those that Vite's `envPrefix` sets, it is too common to be found anywhere. */
const ASTRO_PREFIX = "PUBLIC_";

/** What comes before a name that a page reads. */
const READ = /\bimport\.meta\.env(?:\?\.|\.|(?:\?\.)?\[\s*["'`])$/;

/** Returns the pattern of names for pages. @param own The prefixes that `envPrefix` sets. */
function namePattern(own: readonly string[]): RegExp {
  const prefixes = [...PREFIXES, ASTRO_PREFIX, ...own];
  return new RegExp(`\\b(?:${prefixes.join("|")})\\w+`, "g");
}

/**
 * Returns the name of a variable; `undefined` if it is not for pages. In `import.meta.env`, it has Vite's first prefix
 * if it begins with none of Vite's, so names with another one keep it, and those with two keep both.
 */
function nameOf(found: string, own: readonly string[]): string | undefined {
  const [first = "VITE_", ...others] = own;
  const isKept = (name: string) => others.some((it) => name.startsWith(it));
  if (isKept(found)) return found;
  const prefix = [first, ...PREFIXES, ASTRO_PREFIX]
    .find((it) => found.startsWith(it) && found !== it);
  if (prefix === undefined) return undefined;
  const name = found.slice(prefix.length);
  return isKept(name) || name.startsWith(first) ? found : name;
}

const SOURCE_FILE = /\.(?:[cm]?[jt]sx?|mdx|vue|svelte|astro|html)$/;
const SKIPPED_DIRECTORY = /^(?:\..*|node_modules|dist|build|out|coverage)$/;
/** Sources that are in no page: scripts and configurations beside the app's code, servers, tests, stories, and types. */
const NO_PAGE =
  /^(?:scripts|bin|tools|server)\/|^[^/]+\.config\.\w+$|(?:^|\/)(?:vite|vitest|\+server|setupTests|setupProxy)\.[^/]+$|(?:^|\/)(?:__(?:tests|mocks)__|tests?|e2e|cypress|playwright|stories|lib\/server)\/|\.(?:test|spec|stories|story|cy|e2e|server|d)\.\w+$/;
/** Configurations whose code runs in each build. */
const BUILD_CONFIG = /^(?:astro|next|nuxt|svelte|vite|vue)\.config\.\w+$/;
/** What surrounds a name, here a NUL, that such code sets: `process.env.NAME = …`, or `"import.meta.env.NAME": …`. */
const SET =
  /\bprocess\.env(?:\.|\[["'`])\0(?:["'`]\])?\s*(?:\?\?|\|\|)?=(?![=>])|\bimport\.meta\.env\.\0["'`]\]?\s*:/;

/**
 * A comment, or a string, in which none begins, with or without its end: without that, each beginning would search all of
 * the rest. What may be no comment is none, as in `/api/*`, `[./*]` or `url(//…)`: pages would lose a name in it.
 */
const COMMENT_OR_STRING =
  /(?<![^\s;,(){}])\/\*[^]*?(?:\*\/|$)|<!--[^]*?(?:-->|$)|(?<![^\s;,){}])\/\/.*|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`(?:\\[^]|[^`\\])*`?/g;
/** Nobody writes longer sources, and a regular expression runs out of stack on a string of megabytes. */
const MAX_WRITTEN = 1_000_000;

/** Blanks comments: no page has what only they name. A build also replaces placeholders in comments of HTML. */
function withoutComments(path: string, text: string): string {
  if (text.length > MAX_WRITTEN) return text;
  const blanked = path.endsWith(".html") ? /%\w+%|<%[^]*?%>|(\S)/g : /(\S)/g;
  return text.replace(
    COMMENT_OR_STRING,
    (it) => {
      const isOpen = /^(?:\/\*|<!--)/.test(it) && !/(?:\*\/|-->)$/.test(it);
      if (isOpen || /^["'`]/.test(it)) return it;
      return it.replace(blanked, (all, character) => character ? " " : all);
    },
  );
}

/** Names that are probably those of secrets. */
const SECRET_NAME =
  /(?:^|_)(?:SECRET|PASSWORD|PASSWD|CREDENTIALS?|TOKEN|PRIVATE_KEY)(?:_|$)/;

/**
 * What has a name: code of pages, a placeholder in HTML, a script or configuration that sets it, or only something else.
 * With the first place of each.
 */
type Origins = Partial<Record<"page" | "html" | "script" | "other", string>>;

/**
 * Finds the variables in the sources and in those of the workspace's packages that the app uses, and in the env files
 * beside the sources (or in Vite's `envDir`) and in the current directory. The root of the workspace has values of these
 * variables only, since its other ones may be those of other apps.
 */
async function findVariables(directories: readonly string[], io: CommandIo) {
  const sources: Source[] = [];
  for (const directory of directories.length > 0 ? directories : ["."]) {
    sources.push(...await listSources(directory));
  }
  const apps = new Set([".", ...directories]);
  const settings: BuildSettings[] = [];
  const roots = new Set<string>();
  for (const app of apps) {
    settings.push(await readBuildSettings(app));
    for (const directory of await findLinkedPackages(app)) {
      sources.push(...await listSources(relative(".", directory) || "."));
    }
    const root = await findWorkspaceRoot(app);
    if (root !== undefined) roots.add(relative(".", root) || ".");
  }
  const own = settings.flatMap(({ prefixes }) => prefixes);
  const envDirs = new Set(settings.map(({ envDir }) => envDir));
  const files: BuildEnvFile[] = [];
  const ofApps: BuildEnvFile[] = [];
  for (const directory of roots.union(envDirs)) {
    const read = await readBuildEnvFiles(directory);
    files.push(...read);
    if (envDirs.has(directory)) ofApps.push(...read);
  }
  const origins = new Map<string, Origins>();
  const inFiles = new Set(files.flatMap(({ lines }) => [...lines.keys()]));
  for (const source of sources) {
    await findInSource(source, own, inFiles, origins);
  }
  addNames(ofApps, own, origins);
  addScripts(settings, own, origins);
  const modes = modesOf(files, settings);
  const missing = files.length === 0 ? await findExamples(envDirs) : [];
  const unread = settings.flatMap((it) => it.warnings);
  const warnings = new Set([...missing, ...unread]);
  const all = modes.map((mode) => pageValues(mode, files, own, warnings));
  const shared = files.filter(({ isLocal }) => !isLocal);
  const required = modes.map((mode) =>
    pageValues(mode, shared, own, new Set())
  );
  for (const warning of warnings) io.printError(`Warning: ${warning}`);
  const found = [...origins].sort().map(([name, places]) => {
    const values = all.map((ofMode) => ofMode.get(name));
    const isRequired = required.every((ofMode) => ofMode.get(name));
    return { name, values, isRequired, ...choose(name, places, values) };
  });
  return { modes, found };
}

/** Returns the modes of env files, and those of scripts, since a mode without a file would have no values. */
function modesOf(
  files: readonly BuildEnvFile[],
  settings: readonly BuildSettings[],
): string[] {
  const named = files.map(({ mode }) => mode).filter((mode) => mode !== "");
  const inScripts = settings.flatMap(({ modes }) => modes);
  const others = named.length > 0 ? ["production", ...named, ...inScripts] : [];
  return [...new Set([DEVELOPMENT, ...others])];
}

/** Returns what to do with the examples of env files, where an app has no env file yet. */
async function findExamples(envDirs: ReadonlySet<string>): Promise<string[]> {
  const found: string[] = [];
  for (const directory of envDirs) {
    const example = await findExample(directory);
    if (example === undefined) continue;
    found.push(
      `There is no env file: expected a copy of "${example}", such as .env; then run init again, with --force`,
    );
  }
  return found;
}

/**
 * Adds what env files have. Nuxt itself reads its names, and gives pages the values by other names. What npm sets is only
 * known to builds.
 */
function addNames(
  files: readonly BuildEnvFile[],
  own: readonly string[],
  origins: Map<string, Origins>,
): void {
  for (const { path, lines, values } of files) {
    for (const [found, line] of lines) {
      const name = nameOf(found, own);
      if (name === undefined) continue;
      const origin = `${found}, ${path}:${line}`;
      const isNuxt = found.startsWith("NUXT_PUBLIC_");
      addOrigin(name, isNuxt ? "page" : "other", origin, origins);
      const isOfNpm = /\$\{?npm_/.test(values[found] ?? "");
      if (isOfNpm) addOrigin(name, "script", origin, origins);
    }
  }
}

/** Adds what scripts set. Vite prefers these values to those of env files. */
function addScripts(
  settings: readonly BuildSettings[],
  own: readonly string[],
  origins: Map<string, Origins>,
): void {
  for (const [found, script] of settings.flatMap((it) => [...it.scripts])) {
    const name = nameOf(found, own);
    if (name === undefined) continue;
    addOrigin(name, "script", `${found}, package.json: ${script}`, origins);
  }
}

/** Returns the values in a mode, by the names without the build tool's prefix. */
function pageValues(
  mode: string,
  files: readonly BuildEnvFile[],
  own: readonly string[],
  warnings: Set<string>,
): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [origin, value] of valuesIn(mode, files, warnings)) {
    const name = nameOf(origin, own);
    if (name !== undefined) found.set(name, value);
  }
  return found;
}

/** A source, and its path in the directory that is searched. */
interface Source {
  readonly file: string;
  readonly path: string;
}

async function listSources(directory: string): Promise<Source[]> {
  const isSkipped = (name: string) => SKIPPED_DIRECTORY.test(name);
  const files = await listBuildFiles(directory, isSkipped);
  return files.filter((file) => SOURCE_FILE.test(file)).map((file) => ({
    file,
    path: relative(directory, file).replaceAll("\\", "/"),
  }));
}

/** Finds names in a source. @param inFiles The names that env files have. */
async function findInSource(
  { file, path }: Source,
  own: readonly string[],
  inFiles: ReadonlySet<string>,
  origins: Map<string, Origins>,
): Promise<void> {
  const text = withoutComments(path, await fs.readFile(file, "utf8"));
  for (const { 0: found, index } of text.matchAll(namePattern(own))) {
    const name = nameOf(found, own);
    const before = text.slice(0, index);
    const isCommon = !PREFIXES.some((prefix) => found.startsWith(prefix));
    const isFound = !isCommon || inFiles.has(found) || READ.test(before);
    if (name === undefined || !isFound) continue;
    const line = before.split("\n").length;
    // Vite replaces no `process.env.VITE_…`, so only a script on a server can read that.
    const isOfVite = isCommon || found.startsWith("VITE_");
    const isScript = NO_PAGE.test(path) ||
      isOfVite && /\bprocess\.env\W+$/.test(before);
    const isPlaceholder = before.endsWith("%") &&
      text[index + found.length] === "%";
    const isTemplate = path.endsWith(".html") &&
      before.lastIndexOf("<%") > before.lastIndexOf("%>");
    const around = `${before.slice(-20)}\0${text.slice(index + found.length)}`;
    const isSet = BUILD_CONFIG.test(path) && SET.test(around);
    let kind: keyof Origins = "page";
    if (isSet) kind = "script";
    else if (isScript) kind = "other";
    else if (isPlaceholder || isTemplate) kind = "html";
    addOrigin(name, kind, `${found}, ${file}:${line}`, origins);
  }
}

function addOrigin(
  name: string,
  kind: keyof Origins,
  origin: string,
  origins: Map<string, Origins>,
): void {
  const known = origins.get(name) ?? {};
  known[kind] ??= origin;
  origins.set(name, known);
}

/**
 * Chooses what becomes of a variable. What pages read is in the build today, so everyone may know it, unless it has the
 * format of a secret.
 */
function choose(
  name: string,
  { page, html, script, other }: Origins,
  values: readonly (string | undefined)[],
) {
  const all = values.filter((value) => value !== undefined);
  const secret = all.map((value) => detectSecret(withoutPublicKeys(value)))
    .find((found) => found?.detection === "known_format");
  const origin = page ?? html ?? other ?? script ?? "";
  if ((html ?? script) !== undefined || page === undefined) {
    const why = html !== undefined
      ? `the build puts it into HTML (${html}); expected a script that sets it there`
      : page !== undefined
      ? `a script sets it for builds (${script})`
      : "no page reads it";
    const tier: Tier = secret ? "sensitive" : "public";
    return { origin, tier, isOut: true, choice: `commented out, since ${why}` };
  }
  if (secret !== undefined) {
    const choice =
      `SENSITIVE, since ${secret.detail}: rotate it, since previous builds contain it; pages read it with getSecure()`;
    return { origin, tier: "sensitive" as Tier, choice };
  }
  const suspicion = all.map(detectSecret).find((found) => found !== undefined)
    ?.detail ??
    (SECRET_NAME.test(name) ? "its name is that of a secret" : "");
  const isAccepted = suspicion !== "";
  const choice = isAccepted
    ? `PUBLIC, and in accept_public, although ${suspicion}: builds contain it already`
    : "PUBLIC";
  return { origin, tier: "public" as Tier, isAccepted, choice };
}

/** Editors check a manifest with it, also before the package is installed. */
const SCHEMA = `https://jsr.io/@rep/gateway/${VERSION}/schema/rep.schema.json`;

function renderManifest(variables: readonly FoundVariable[]): string {
  const lines = variables.map((variable) => {
    const { name, origin, values, tier, isRequired, isOut } = variable;
    const start = isOut ? "# " : "";
    const key = renderKey(name);
    const required = isRequired ? ", required: true" : "";
    const fields = `tier: ${tier}, type: ${typeOf(values)}${required}`;
    return `  ${start}${key}: { ${fields} } # ${escapeInvisible(origin)}\n`;
  });
  const accepted = variables.filter(({ isAccepted }) => isAccepted)
    .map(({ name }) => JSON.stringify(name)).join(", ");
  const settings = accepted === ""
    ? ""
    : `\nsettings:\n  accept_public: [${accepted}]\n`;
  return `# yaml-language-server: $schema=${SCHEMA}
# The variables of the app: names, tiers and types. Their values are elsewhere.
version: "0.1.0"

variables:
${lines.join("")}${settings}`;
}

/** Quotes a name that YAML would take for a number, a boolean or nothing. */
function renderKey(name: string): string {
  const isText = /^[A-Z_]/i.test(name) && !/^(?:true|false|null)$/i.test(name);
  return isText ? name : JSON.stringify(name);
}

/** Returns the type that the values probably have. A code such as `01234` is not a number. */
function typeOf(values: FoundVariable["values"]): VariableType {
  const all = values.filter((value) => value !== undefined);
  if (all.length === 0) return "string";
  if (all.every((it) => /^(?:true|false)$/.test(it))) return "boolean";
  const isNumber = all.every((it) =>
    /^-?(?:0|[1-9]\d{0,14})(?:\.\d+)?$/.test(it)
  );
  return isNumber ? "number" : "string";
}

function renderEnvFile(
  variables: readonly FoundVariable[],
  mode: string,
  index: number,
): string {
  const lines = variables.map((variable) => {
    const value = variable.values[index];
    const start = variable.isOut || value === undefined ? "# " : "";
    return `${start}${environmentName(variable)}=${quote(value)}\n`;
  });
  return `# Values for ${mode}. Keep this file out of the repository.
${lines.join("")}`;
}

/** Quotes a value of an env file, if it needs quotes. */
function quote(value = ""): string {
  if (/^[\w.,:/@%+=?&-]*$/.test(value)) return value;
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
  envFiles: readonly NewFile[],
  io: CommandIo,
): void {
  for (const { name, origin, choice, values, isOut } of found) {
    const place = origin.replace(/^\w+, /, "");
    io.printError(escapeInvisible(`${place}: ${name} is ${choice}`));
    if (isOut || values.some((value) => value !== undefined)) continue;
    const paths = envFiles.map(({ path }) => path).join(", ");
    io.printError(`${name} has no value: set it in ${paths}`);
  }
  const isIn = found.filter(({ isOut }) => !isOut);
  io.printError(`Found ${isIn.length} variables of pages`);
}

/** Returns what is left to do in an app. @param pathOf Returns the env file of a mode. */
function nextSteps(
  app: string,
  manifest: string,
  pathOf: (mode: string) => string,
): string {
  const manifestPath = JSON.stringify(relative(app, manifest));
  const path = relative(app, pathOf("${mode}"));
  const hasModes = path.includes("${mode}");
  const envPath = hasModes ? `\`${path}\`` : JSON.stringify(path);
  const plugins =
    `plugins: [rep({ manifest: ${manifestPath}, envFile: ${envPath}, env: true })]`;
  const config = hasModes
    ? `export default defineConfig(({ mode }) => ({ ${plugins} }));`
    : plugins;
  const modes = hasModes
    ? "\nStart vite preview with the --mode of the build; without it, it reads the values of production"
    : "";
  return `Next: add ${
    pathOf("*")
  } to .gitignore, and run npm install @rep/gateway${modes}
With Vite, add this to its configuration; otherwise, read values with get() from @rep/gateway/client:
  import { rep } from "@rep/gateway/vite";
  ${config}`;
}
