import type { Payload } from "../../core/pages/payload.ts";
import { SEPARATOR } from "@std/path/constants";
import fs from "node:fs/promises";
import {
  buildSnapshot,
  ConfigurationError,
  type Snapshot,
} from "../../core/config/variables/snapshot.ts";
import {
  type ConfigScript,
  makePayload,
  PROTOCOL_VERSION,
  renderConfigScript,
} from "../../core/pages/config_script.ts";
import {
  readConfigScript,
  replaceScript,
} from "../../core/pages/insert_script.ts";
import { sriHash } from "../../core/values/hash.ts";
import { listBuildFiles } from "./build_files.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_table.ts";
import { readSources, warningText } from "./manifest_commands.ts";
import { escapeInvisible } from "./terminal_text.ts";
import { findRegularFile, writeFile } from "./write_file.ts";

/** Writes PUBLIC values into the pages of a build, which is then served without a gateway. */
export async function inject(
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const snapshot = await readSnapshot(line, io);
  const lists = line.args.map((build) => listPages(build, io));
  const pages = (await Promise.all(lists)).flat();
  if (line.args.length > 0 && pages.length === 0) {
    const builds = line.args.join(", ");
    throw new TypeError(
      `Cannot inject into ${builds}: expected .html files, got none`,
    );
  }
  for (const path of pages) await injectInto(path, snapshot, io);
  if (line["config-js"] !== undefined) {
    await writeConfigJs(line["config-js"], snapshot, io);
  }
}

/** Lists the pages of a build. It skips links to pages outside of the build, which other builds may contain as well. */
async function listPages(
  build: string,
  { printError }: CommandIo,
): Promise<string[]> {
  const files = await listBuildFiles(build);
  const root = await fs.realpath(build);
  const pages: string[] = [];
  for (const path of files) {
    if (!/\.html?$/i.test(path)) continue;
    const target = await fs.realpath(path);
    const isInside = target === root || target.startsWith(root + SEPARATOR);
    if (isInside) pages.push(path);
    else {
      printError(
        `Warning: ${path} is a link out of ${build}, and is left as it is`,
      );
    }
  }
  return pages;
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
    acceptPublic: sources.acceptPublic,
    requiredTiers: ["public"],
  });
  const secrets = snapshot.warnings.map(warningText);
  const suspicious = snapshot.suspicious.map(({ name, detail }) =>
    `${name}: ${detail}`
  );
  for (const warning of [...sources.warnings, ...secrets, ...suspicious]) {
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
  const page = new Uint8Array(await fs.readFile(path));
  const before = readConfigScript(page);
  const { bytes } = await render(snapshot, before, io);
  const result = replaceScript(page, bytes);
  if (result === undefined) {
    return io.printError(`Warning: ${path} is UTF-16, and is left as it is`);
  }
  const isWritten = await writeFile("DIR", path, result);
  const change = before === undefined ? "injected" : "replaced";
  const action = isWritten ? change : "up to date";
  io.print(escapeInvisible(`${path}: ${action}`));
  if (isWritten) await warnOfCompressed(path, io);
}

/** Warns about compressed files, since servers send them instead of the page. */
async function warnOfCompressed(
  path: string,
  { printError }: CommandIo,
): Promise<void> {
  for (const compressed of [`${path}.br`, `${path}.gz`, `${path}.zst`]) {
    const isThere = await fs.stat(compressed).then(() => true, () => false);
    if (isThere) {
      printError(
        `Warning: ${compressed} contains the previous page: compress it again, or delete it`,
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
  const before = existing === undefined ? "" : await fs.readFile(path, "utf8");
  const script = await render(snapshot, readConfigJs(before), io);
  const text = await renderConfigJs(script);
  const isWritten = await writeFile("--config-js", path, text);
  const action = isWritten ? "written" : "up to date";
  io.print(escapeInvisible(`${path}: ${action}`));
}

/** Any key would do, since only a gateway could verify the integrity token of the payload. */
const INTEGRITY_KEY = new Uint8Array(32);
const NO_VALUES: ReadonlyMap<string, string> = new Map();

/**
 * Renders the element.
 *
 * @param before The text of the previous element. If its values are the same, its time is kept, so that files stay the
 * same.
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
    return undefined; // another program wrote the element, which is replaced
  }
}

/** Renders a script that adds the element to the page that loads it, for builds whose pages are not changed. */
async function renderConfigJs({ bytes }: ConfigScript): Promise<string> {
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
function readConfigJs(script: string): string | undefined {
  const [, literal] = /textContent = ("(?:[^"\\]|\\.)*");\n/.exec(script) ?? [];
  return literal === undefined ? undefined : JSON.parse(literal);
}
