import { isRepName } from "../../config/variables/tiers.ts";
import type { CommandOptions } from "../options/option_table.ts";
import { secretPaths } from "../sources/secret_files.ts";
import { resolveEnvPaths } from "../sources/sources.ts";
import { tlsPaths } from "./tls.ts";

/**
 * Returns the paths of what the command reads or stores: env files and directories, the manifest, the store, the
 * certificate with its key, and secrets in files. They are never served, even if they are in the served directory.
 */
export async function ownFiles(options: CommandOptions): Promise<string[]> {
  const { kv, manifest, "static-dir": staticDir } = options;
  if (staticDir === undefined) return [];
  const envPaths = await Promise.all(
    resolveEnvPaths(options).paths.map((path) => envFiles(path, staticDir)),
  );
  const fixed = [manifest, ...tlsPaths(options), ...secretPaths()].filter((
    path,
  ) => path !== undefined);
  return [...envPaths.flat(), ...await storeFiles(kv), ...fixed];
}

/** A directory is excluded with everything in it; one that contains the app, only with the files that are read. */
async function envFiles(path: string, staticDir: string): Promise<string[]> {
  const { isDirectory } = await Deno.stat(path).catch(() => ({
    isDirectory: false,
  }));
  if (!isDirectory) return [path];
  const names = await Array.fromAsync(Deno.readDir(path), ({ name }) => name);
  const files = names.filter(isRepName).map((name) => `${path}/${name}`);
  return await contains(path, staticDir) ? files : [path, ...files];
}

async function contains(path: string, staticDir: string): Promise<boolean> {
  const [outer, inner] = await Promise.all([
    Deno.realPath(path),
    Deno.realPath(staticDir),
  ]);
  return `${inner}/`.startsWith(`${outer}/`);
}

async function storeFiles(kv: string | undefined): Promise<string[]> {
  if (kv === undefined || kv === ":memory:") return [];
  const { storeFiles } = await import("../../store/open_named.ts");
  return await storeFiles(kv);
}
