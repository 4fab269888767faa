import { isGranted } from "../permissions.ts";
import { formatKvPath, isUrl, missingPermission } from "../store/open.ts";
import type { CommandOptions } from "./option_table.ts";
import { resolveContent } from "./resolve_content.ts";
import { missingRead, resolveEnvPath } from "./sources.ts";

/**
 * Checks the permissions that files, directories, the store and the upstream require. Without this check, Deno would
 * prompt for them on a terminal.
 *
 * @returns A message for each missing permission.
 * @throws {UsageError} If `--static-dir` and `--upstream` are in conflict.
 */
export function checkPermissions(options: CommandOptions): string[] {
  const { staticDir, upstream } = resolveContent(options);
  const issues = [
    readIssue("--static-dir", staticDir),
    readIssue("--manifest", options.manifest),
    envFileIssue(options),
    readIssue("--tls-cert", options["tls-cert"]),
    readIssue("--tls-key", options["tls-key"]),
    storeIssue(options.kv),
    upstream && netIssue(`Cannot proxy to --upstream "${upstream}"`, upstream),
  ];
  return issues.filter((issue) => issue !== undefined);
}

function readIssue(flag: string, path: string | undefined): string | undefined {
  return path === undefined ? undefined : missingRead({ flag, path });
}

function envFileIssue(options: CommandOptions): string | undefined {
  const envPath = resolveEnvPath(options);
  return envPath && missingRead(envPath);
}

function storeIssue(kv: string | undefined): string | undefined {
  if (kv === undefined || kv === ":memory:") return undefined;
  const url = isUrl(kv) ? URL.parse(kv) : null;
  const failure = `Cannot open --kv "${formatKvPath(kv)}"`;
  const missing = missingPermission(kv);
  if (missing !== undefined) return `${failure}: expected ${missing}`;
  return url === null ? undefined : netIssue(failure, url);
}

function netIssue(failure: string, { hostname, port, protocol }: URL): string | undefined {
  const host = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  return isGranted({ name: "net", host }) ? undefined : `${failure}: expected --allow-net=${host}`;
}
