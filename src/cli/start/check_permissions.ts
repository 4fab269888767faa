import { isGranted } from "../../values/permissions.ts";
import type { CommandOptions } from "../options/option_table.ts";
import { missingRead, resolveEnvPaths } from "../sources/sources.ts";
import { resolveContent } from "./resolve_content.ts";

/**
 * Checks the permissions that files, directories, the store and the upstream require. Without this check, Deno would
 * prompt for them on a terminal.
 *
 * @returns A message for each missing permission.
 * @throws {UsageError} If `--static-dir` and `--upstream` are in conflict.
 */
export async function checkPermissions(options: CommandOptions): Promise<string[]> {
  const { staticDir, upstream } = resolveContent(options);
  const { flag, paths } = resolveEnvPaths(options);
  const issues = [
    readIssue("--static-dir", staticDir),
    readIssue("--manifest", options.manifest),
    ...paths.map((path) => missingRead(flag, path)),
    readIssue("--tls-cert", options["tls-cert"]),
    readIssue("--tls-key", options["tls-key"]),
    await storeIssue(options.kv),
    upstream && upstreamIssue(upstream),
  ];
  return issues.filter((issue) => issue !== undefined);
}

function readIssue(flag: string, path: string | undefined): string | undefined {
  return path === undefined ? undefined : missingRead(flag, path);
}

async function storeIssue(kv: string | undefined): Promise<string | undefined> {
  if (kv === undefined || kv === ":memory:") return undefined;
  const { formatStorePath, missingPermission } = await import("../../store/open_named.ts");
  const missing = missingPermission(kv);
  return missing && `Cannot open --kv "${formatStorePath(kv)}": expected ${missing}`;
}

function upstreamIssue(upstream: URL): string | undefined {
  const { hostname, port, protocol } = upstream;
  const host = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  return isGranted({ name: "net", host })
    ? undefined
    : `Cannot proxy to --upstream "${upstream}": expected --allow-net=${host}`;
}
