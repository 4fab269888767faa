import { globToRegExp } from "@std/path/glob-to-regexp";
import { relative } from "@std/path/relative";
import {
  detectInCode,
  type Detection,
  detectSecret,
} from "../../config/variables/guardrails.ts";

import {
  type CommandIo,
  escapeInvisible,
  findRegularFile,
  terminalJson,
  writeFile,
} from "./command_io.ts";
import type { CommandArguments } from "./command_line.ts";
import { SEPARATOR } from "@std/path/constants";
import {
  buildSnapshot,
  ConfigurationError,
  type Snapshot,
} from "../../config/variables/snapshot.ts";
import { environmentName } from "../../config/variables/tiers.ts";
import {
  type ConfigScript,
  makePayload,
  type Payload,
  PROTOCOL_VERSION,
  renderConfigScript,
} from "../../pages/config_script.ts";
import { readConfigScript, replaceScript } from "../../pages/insert_script.ts";

import { readSources } from "./manifest_commands.ts";
import { join } from "@std/path/join";
import { messageOf } from "../../observe/log.ts";
import { missingRead } from "../sources/variable_sources.ts";
import { sriHash } from "../../values/hash.ts";

/** Where a file has a value that looks like a secret. Both numbers begin with 1. */
interface Finding extends Detection {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The output of most bundlers. */
const DEFAULT_DIRECTORY = "dist";
/** The files of a build that have text. */
const TEXT_FILE = /\.(c?js|mjs|json|map|html?|css|svg|xml|txt|webmanifest)$/i;

/** Checks the files of a build with the guardrails of PUBLIC values, and prints where they found something. */
export async function lint(
  line: CommandArguments,
  io: CommandIo,
): Promise<number> {
  const directories = line.args.length > 0 ? line.args : [DEFAULT_DIRECTORY];
  const lists = await Promise.all(directories.map(async (directory) => {
    const files = await listBuildFiles(directory);
    return files.filter((file) =>
      isSelected(relative(directory, file) || file, line)
    );
  }));
  const files = [...new Set(lists.flat())];
  if (files.length === 0) {
    throw new TypeError(
      `Cannot lint ${
        directories.join(", ")
      }: expected files of a build, got none`,
    );
  }
  const findings: Finding[] = [];
  for (const file of files) {
    findings.push(...lintText(await Deno.readTextFile(file), file));
  }
  printFindings(findings, files.length, line.json, io);
  return findings.length === 0 ? 0 : 1;
}

function isSelected(
  path: string,
  { pattern, exclude }: Pick<CommandArguments, "pattern" | "exclude">,
): boolean {
  const isIncluded = pattern.length === 0
    ? TEXT_FILE.test(path)
    : pattern.some((glob) => matches(path, glob));
  return isIncluded && !exclude.some((glob) => matches(path, glob));
}

/** A pattern without a slash applies in every folder, as in `.gitignore`. */
function matches(path: string, glob: string): boolean {
  return globToRegExp(glob.includes("/") ? glob : `**/${glob}`).test(path);
}

function lintText(text: string, file: string): Finding[] {
  return text.split("\n").flatMap((line, index) =>
    lintLine(line).map((found) => ({ file, line: index + 1, ...found }))
  );
}

/**
 * Checks a line between its quotes, so that no pairs have to be found: a pair may be in a comment or a regular
 * expression. Code is checked for known formats only, since minified code has a high entropy.
 */
function lintLine(line: string): (Detection & { column: number })[] {
  let column = 1;
  return line.split(/["'`]/).flatMap((piece) => {
    const start = column;
    column += piece.length + 1;
    const detection = isData(piece) ? detectSecret(piece) : detectInCode(piece);
    return detection ? [{ column: start, ...detection }] : [];
  });
}

/** Larger data is an image, a font or a WebAssembly module. */
const MAX_SECRET_LENGTH = 1_024;

/** Names in code may be as random as a secret, but hardly any secret of this length has no digit. */
function isData(piece: string): boolean {
  if (piece.length > MAX_SECRET_LENGTH) return false;
  return /^[\w+/=.:~-]{20,}\\?$/.test(piece) && /\d/.test(piece) &&
    !isAlphabet(piece);
}

/** The alphabets of base64 and of generators of ids have each character once. */
function isAlphabet(piece: string): boolean {
  return piece.length >= 32 && new Set(piece).size === piece.length;
}

function printFindings(
  findings: readonly Finding[],
  files: number,
  json: boolean,
  io: CommandIo,
): void {
  if (json) return io.print(terminalJson(findings, 2));
  for (const { file, line, column, detection, detail } of findings) {
    io.print(
      escapeInvisible(`${file}:${line}:${column}: ${detection}: ${detail}`),
    );
  }
  const noun = findings.length === 1
    ? "value that looks like a secret"
    : "values that look like secrets";
  io.printError(`${findings.length} ${noun} in ${files} files`);
}

/** Writes PUBLIC values into the pages of a build, which is then served without a gateway. */
export async function inject(
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const snapshot = await readSnapshot(line, io);
  const lists = await Promise.all(
    line.args.map((build) => listPages(build, io)),
  );
  const pages = lists.flat();
  if (line.args.length > 0 && pages.length === 0) {
    throw new TypeError(
      `Cannot inject into ${
        line.args.join(", ")
      }: expected .html files, got none`,
    );
  }
  for (const path of pages) await injectInto(path, snapshot, io);
  if (line["config-js"] !== undefined) {
    await writeConfigJs(line["config-js"], snapshot, io);
  }
}

/** Lists the pages of a build, without those that a link out of it names: another build may have them as well. */
async function listPages(
  build: string,
  { printError }: CommandIo,
): Promise<string[]> {
  const pages = (await listBuildFiles(build)).filter((path) =>
    /\.html?$/i.test(path)
  );
  const root = await Deno.realPath(build);
  const targets = await Promise.all(pages.map((path) => Deno.realPath(path)));
  const isOutside = (target = "") =>
    target !== root && !target.startsWith(`${root}${SEPARATOR}`);
  for (const [index, path] of pages.entries()) {
    if (isOutside(targets[index])) {
      printError(
        `Warning: ${path} is a link out of ${build}, and is left as it is`,
      );
    }
  }
  return pages.filter((_, index) => !isOutside(targets[index]));
}

async function readSnapshot(
  line: CommandArguments,
  io: CommandIo,
): Promise<Snapshot> {
  const sources = await readSources(line, io.environment);
  if (sources.issues.length > 0) throw new ConfigurationError(sources.issues);
  const snapshot = await buildSnapshot({
    environment: sources.environment,
    manifest: sources.manifest,
    strict: sources.strict,
    requiredTiers: ["public"],
    loadPatternLibrary: undefined,
  });
  const secrets = snapshot.warnings.map(({ name, detail }) =>
    `${environmentName({ name, tier: "public" })}: ${detail}`
  );
  for (const warning of [...sources.warnings, ...secrets]) {
    io.printError(`Warning: ${warning}`);
  }
  if (snapshot.sensitive.size > 0) {
    io.printError(
      "Warning: SENSITIVE variables are left out: only a gateway issues the keys to read them",
    );
  }
  return snapshot;
}

async function injectInto(
  path: string,
  snapshot: Snapshot,
  io: CommandIo,
): Promise<void> {
  const page = await Deno.readFile(path);
  const before = readConfigScript(page);
  const { bytes } = await render(snapshot, before, io);
  const result = replaceScript(page, bytes);
  if (result === undefined) {
    return io.printError(`Warning: ${path} is UTF-16, and is left as it is`);
  }
  const isWritten = await writeFile("DIR", path, result);
  const action = isWritten
    ? before === undefined ? "injected" : "replaced"
    : "up to date";
  io.print(escapeInvisible(`${path}: ${action}`));
  if (isWritten) await warnOfCompressed(path, io);
}

/** Servers prefer these files, which still have the previous page. */
async function warnOfCompressed(
  path: string,
  { printError }: CommandIo,
): Promise<void> {
  for (const compressed of [`${path}.br`, `${path}.gz`, `${path}.zst`]) {
    const isThere = await Deno.stat(compressed).then(() => true, () => false);
    if (isThere) {
      printError(
        `Warning: ${compressed} has the previous page: compress it again, or delete it`,
      );
    }
  }
}

async function writeConfigJs(
  path: string,
  snapshot: Snapshot,
  io: CommandIo,
): Promise<void> {
  const existing = await findRegularFile(path);
  const before = existing === undefined
    ? ""
    : await Deno.readTextFile(existing.path);
  const script = await render(snapshot, readConfigJs(before), io);
  const isWritten = await writeFile(
    "--config-js",
    path,
    await renderConfigJs(script),
  );
  io.print(escapeInvisible(`${path}: ${isWritten ? "written" : "up to date"}`));
}

/** Nobody verifies the token of such a payload: there is no gateway that would. */
const INTEGRITY_KEY = new Uint8Array(32);
const NO_VALUES: ReadonlyMap<string, string> = new Map();

/**
 * Renders the element.
 *
 * @param before The text of the previous one. If it has the same values, so does its time, so that nothing changes.
 */
async function render(
  snapshot: Snapshot,
  before: string | undefined,
  { clock }: CommandIo,
): Promise<ConfigScript> {
  const payload = await makePayload({
    public: snapshot.public,
    sensitive: NO_VALUES,
    keys: { kid: "0", sessionKey: INTEGRITY_KEY, integrityKey: INTEGRITY_KEY },
    cursor: undefined,
    basePath: "",
    now: clock.now(),
  });
  const previous = parsePayload(before);
  const isSame = previous?._meta?.integrity === payload._meta.integrity;
  const injected_at = isSame
    ? previous._meta.injected_at
    : payload._meta.injected_at;
  return await renderConfigScript({
    ...payload,
    _meta: { ...payload._meta, injected_at },
  });
}

function parsePayload(text: string | undefined): Payload | undefined {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined; // somebody else's element, which is replaced
  }
}

/**
 * Lists the regular files of a build in the order of their paths, or a single one. Links to directories are not
 * followed, since they could form a cycle.
 *
 * @throws {ConfigurationError} If the directory or the permission to read it is missing, or it is neither a directory
 * nor a regular file.
 */
export async function listBuildFiles(path: string): Promise<string[]> {
  const missing = missingRead("DIR", path);
  if (missing !== undefined) throw new ConfigurationError([missing]);
  try {
    const { isDirectory, isFile } = await Deno.stat(path);
    if (!isDirectory && !isFile) {
      throw new TypeError("expected a directory or a regular file");
    }
    return isDirectory ? await listDirectory(path) : [path];
  } catch (cause) {
    throw new ConfigurationError([
      `Cannot read DIR "${path}": ${messageOf(cause)}`,
    ], { cause });
  }
}

async function listDirectory(directory: string): Promise<string[]> {
  const entries = await Array.fromAsync(Deno.readDir(directory));
  entries.sort((a, b) => a.name < b.name ? -1 : 1);
  const lists = entries.map((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory) return listDirectory(path);
    return entry.isSymlink
      ? listLink(path)
      : Promise.resolve(entry.isFile ? [path] : []);
  });
  return (await Promise.all(lists)).flat();
}

async function listLink(path: string): Promise<string[]> {
  const target = await Deno.stat(path).catch(() => undefined); // a broken link
  return target?.isFile ? [path] : [];
}

/**
 * Renders a script that adds the element to the page that loads it, where clients then find it like an injected one.
 */
export async function renderConfigJs({ bytes }: ConfigScript): Promise<string> {
  const text = readConfigScript(bytes) ?? "";
  return `// Generated by the command inject of @rep/gateway. Do not edit.
{
  const script = document.createElement("script");
  script.id = "__rep__";
  script.type = "application/json";
  script.dataset.repVersion = ${JSON.stringify(PROTOCOL_VERSION)};
  script.dataset.repIntegrity = ${JSON.stringify(await sriHash(text))};
  script.textContent = ${JSON.stringify(text)};
  document.getElementById("__rep__")?.remove();
  document.head.append(script);
}
`;
}

/** Returns the text of the element that such a script adds. */
export function readConfigJs(script: string): string | undefined {
  const [, literal] = /textContent = ("(?:[^"\\]|\\.)*");\n/.exec(script) ?? [];
  return literal === undefined ? undefined : JSON.parse(literal);
}
