import { Buffer } from "node:buffer";
import { readdir, readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import {
  detectInCode,
  withoutPublicKeys,
} from "../core/config/variables/guardrails.ts";
import { type EnvPath, readEnvFiles } from "../files/read_environment.ts";
import { classify } from "../core/config/variables/snapshot.ts";
import type { Variable } from "../core/config/variables/tiers.ts";
import { findSame } from "./deny_files.ts";
import { remedyFor } from "./env_names.ts";
import type { ViteConfig, ViteOutput } from "./vite.ts";

/** @throws {Error} If a module is one of the files that the plugin reads: importing it would put it into a page. */
export async function rejectModule(
  id: string,
  paths: readonly string[],
  { root }: ViteConfig,
): Promise<void> {
  const path = id.replace(/[?#].*$/s, "");
  const found = await findSame([path], paths);
  if (found === undefined) return;
  const name = relative(root, found);
  throw new Error(
    `Cannot import ${name}: the plugin reads this file, and no page may contain it`,
  );
}

/** @throws {Error} If the folder of public files, which a build copies, contains one of the files that the plugin reads. */
export async function rejectPublicFiles(
  paths: readonly string[],
  { root, publicDir, build }: ViteConfig,
): Promise<void> {
  if (publicDir === "" || build.copyPublicDir === false) return;
  const names = await readdir(publicDir, { recursive: true }).catch(() => []); // there may be no such folder
  const files = names.map((name) => join(publicDir, name));
  const found = await findSame(files, paths);
  if (found === undefined) return;
  const name = relative(root, found);
  const folder = relative(root, publicDir);
  throw new Error(
    `Cannot build: ${name} would be part of the build, where everyone can read it; expected it outside of ${folder}`,
  );
}

/** Shorter values occur by chance in any code. */
const MIN_VALUE_LENGTH = 8;

/**
 * Checks the files of a build for the known formats of secrets, and for the SENSITIVE and SERVER values of the env files
 * that exist where the build runs.
 *
 * @throws {Error} If it finds any. The message names the files and the variables, but no value.
 */
export async function rejectSecrets(
  files: readonly ViteOutput[],
  envFiles: readonly EnvPath[],
): Promise<void> {
  const secrets = await secretsIn(envFiles);
  const findings: string[] = [];
  for (const file of files) {
    const text = textsOf(file);
    const format = detectInCode(withoutPublicKeys(text));
    if (format) findings.push(`${file.fileName}: ${format.detail}`);
    for (const secret of secrets) {
      if (!contains(text, secret.value)) continue;
      const remedy = remedyFor(secret);
      findings.push(`${file.fileName}: the value of ${secret.name}: ${remedy}`);
    }
  }
  if (findings.length === 0) return;
  throw new Error(
    `Cannot build: the output contains secrets\n${findings.join("\n")}`,
  );
}

async function secretsIn(envFiles: readonly EnvPath[]): Promise<Variable[]> {
  const paths = envFiles.map(({ path }) => ({ path, required: false }));
  const files = await readEnvFiles(paths);
  const all = files.flatMap((file) => classify(file.variables).variables);
  return all.filter(({ tier, value }) =>
    tier !== "public" && value.length >= MIN_VALUE_LENGTH
  );
}

/** Returns whether code contains a value, literally or escaped as in a string literal. */
function contains(code: string, value: string): boolean {
  const literal = JSON.stringify(value).slice(1, -1);
  return code.includes(value) || code.includes(literal);
}

/** A source map in a file. It contains the sources, with their comments and with code that the build removes. */
const INLINE_MAP = /\bsourceMappingURL=data:[^,\s]*;base64,([\w+/=]+)/g;

/** Returns the text of a file, and of the source maps in it. */
function textsOf(file: ViteOutput): string {
  const text = textOf(file);
  const maps = Array.from(
    text.matchAll(INLINE_MAP),
    ([, map = ""]) => Buffer.from(map, "base64").toString(),
  );
  return [text, ...maps].join("\n");
}

function textOf(file: ViteOutput): string {
  const content = file.type === "chunk" ? file.code : file.source;
  return Buffer.from(content).toString();
}

/** In a service worker of Workbox, also a minified one: a page to precache, or one that answers every navigation. */
const PRECACHED_PAGE =
  /\{(?=[^{}]*\brevision\b)[^{}]*\burl["']?:\s*["'][^"']+\.html["']|\bcreateHandlerBoundToURL\(["']/;

/** Warns of a service worker of vite-plugin-pwa that precaches pages. Its options cannot be read, so its output is. */
export async function warnOfPrecache(
  { plugins = [], root, build, logger }: ViteConfig,
): Promise<void> {
  if (!plugins.some(({ name }) => name === "vite-plugin-pwa")) return;
  const folder = resolve(root, build.outDir);
  const names = await readdir(folder, { recursive: true })
    .catch(() => []); // the build may have failed
  for (const name of names.filter((name) => /\.m?js$/.test(name))) {
    const path = join(folder, name);
    const code = await readFile(path, "utf8").catch(() => ""); // it may be a folder
    if (!PRECACHED_PAGE.test(code)) continue;
    logger.warn(
      `[rep] ${
        relative(root, path)
      }: from the second visit on, precached pages have no configuration; expected workbox.globPatterns without html, and workbox.navigateFallback: null, as docs/service_workers.md of @rep/gateway explains`,
    );
  }
}
