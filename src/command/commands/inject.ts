import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";
import fs from "node:fs/promises";
import {
  buildSnapshot,
  ConfigurationError,
  type Snapshot,
} from "../../core/config/variables/snapshot.ts";
import {
  escapeForScript,
  makePayload,
  NO_KEYS,
  PROTOCOL_VERSION,
  renderConfigScript,
} from "../../core/pages/config_script.ts";
import { insertScript } from "../../core/pages/insert_script.ts";
import type { Payload } from "../../core/pages/payload.ts";
import { sriHash } from "../../core/values/hash.ts";
import { listBuildFiles } from "./build_files.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_table.ts";
import { describeFindings, readSources } from "./manifest_commands.ts";
import { escapeInvisible } from "../../core/values/visible_text.ts";
import { isThere } from "./workspace.ts";
import { writeFile } from "./write_file.ts";

/** Writes PUBLIC values into the pages of a build, which is then served without a gateway. */
export async function inject(
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const snapshot = await readSnapshot(line, io);
  const payload = await makePayload({
    public: snapshot.public,
    sensitive: new Map(),
    keys: NO_KEYS,
    cursor: undefined,
    pollMs: undefined,
    basePath: "",
    now: io.clock.now(),
  });
  const { bytes } = await renderConfigScript(payload);
  const pages = (await Promise.all(line.args.map(listPages))).flat();
  if (line.args.length > 0 && pages.length === 0) {
    const builds = line.args.join(", ");
    throw new TypeError(
      `Cannot inject into ${builds}: expected .html files, got none`,
    );
  }
  const configJs = line["config-js"];
  const written = configJs === undefined ? pages : [...pages, configJs];
  for (const path of pages) {
    const page = new Uint8Array(await fs.readFile(path));
    let isUtf16 = false;
    const injected = insertScript(page, bytes, () => isUtf16 = true);
    if (isUtf16) {
      const left = `${path} is left as it is: expected UTF-8, got UTF-16`;
      io.printError(escapeInvisible(`Warning: ${left}`));
      continue;
    }
    await writeFile("DIR", path, injected);
    io.print(escapeInvisible(`${path}: injected`));
    await warnOfCompressed(path, io);
  }
  if (configJs !== undefined) {
    await writeFile("--config-js", configJs, await renderConfigJs(payload));
    io.print(escapeInvisible(`${configJs}: written`));
  }
  const folders = new Set(written.map((path) => dirname(path)));
  for (const folder of folders) await warnOfHashes(folder, io);
}

/** Lists the pages of a build. It skips links: their pages are in the build as well, or in other builds. */
async function listPages(build: string): Promise<string[]> {
  const files = await listBuildFiles(build);
  const pages: string[] = [];
  for (const path of files.filter((path) => /\.html?$/i.test(path))) {
    const info = await fs.lstat(path);
    if (path === build || !info.isSymbolicLink()) pages.push(path);
  }
  return pages;
}

async function readSnapshot(
  line: CommandArguments,
  io: CommandIo,
): Promise<Snapshot> {
  const sources = await readSources(line, io);
  if (sources.issues.length > 0) throw new ConfigurationError(sources.issues);
  const snapshot = await buildSnapshot({
    environment: sources.environment,
    stored: undefined,
    manifest: sources.manifest,
    strict: sources.strict,
    rejectsSuspiciousValues: false,
    acceptPublic: sources.acceptPublic,
    requiredTiers: ["public"],
  });
  const findings = describeFindings(snapshot, sources);
  for (const warning of [...sources.warnings, ...findings]) {
    io.printError(`Warning: ${warning}`);
  }
  if (snapshot.sensitive.size > 0) {
    io.printError(
      "Warning: SENSITIVE variables are left out: only a gateway issues the keys to read them",
    );
  }
  return snapshot;
}

/** Warns about compressed files, since servers send them instead of the page. */
async function warnOfCompressed(
  path: string,
  { printError }: CommandIo,
): Promise<void> {
  for (const compressed of [`${path}.br`, `${path}.gz`, `${path}.zst`]) {
    if (await isThere(compressed)) {
      printError(
        `Warning: ${compressed} contains the previous page: compress it again, or delete it`,
      );
    }
  }
}

/** Warns about Angular's service worker, which rejects a build if a file differs from its hash in `ngsw.json`. */
async function warnOfHashes(
  folder: string,
  { printError }: CommandIo,
): Promise<void> {
  const path = join(folder, "ngsw.json");
  if (!await isThere(path)) return;
  printError(
    escapeInvisible(
      `Warning: ${path} contains the hashes of the previous files: update it with "npx ngsw-config ${folder} ngsw-config.json", followed by the build's base href`,
    ),
  );
}

/** Renders a script that adds the element to the page that loads it, for builds whose pages are not changed. */
async function renderConfigJs(payload: Payload): Promise<string> {
  const text = escapeForScript(JSON.stringify(payload));
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
