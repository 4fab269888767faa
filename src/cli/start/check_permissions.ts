import { formatStorePath, isUrl, missingPermission } from "../../store/open.ts";
import { isPostgresUrl, parsePostgresUrl, type PostgresHost } from "../../store/postgres/url.ts";
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
export function checkPermissions(options: CommandOptions): string[] {
  const { staticDir, upstream } = resolveContent(options);
  const { flag, paths } = resolveEnvPaths(options);
  const issues = [
    readIssue("--static-dir", staticDir),
    readIssue("--manifest", options.manifest),
    ...paths.map((path) => missingRead(flag, path)),
    readIssue("--tls-cert", options["tls-cert"]),
    readIssue("--tls-key", options["tls-key"]),
    storeIssue(options.kv),
    upstream && netIssue(`Cannot proxy to --upstream "${upstream}"`, upstream),
  ];
  return issues.filter((issue) => issue !== undefined);
}

function readIssue(flag: string, path: string | undefined): string | undefined {
  return path === undefined ? undefined : missingRead(flag, path);
}

function storeIssue(kv: string | undefined): string | undefined {
  if (kv === undefined || kv === ":memory:") return undefined;
  const failure = `Cannot open --kv "${formatStorePath(kv)}"`;
  const missing = missingPermission(kv);
  if (missing !== undefined) return `${failure}: expected ${missing}`;
  return storeAddresses(kv).map((address) => netIssue(failure, address)).find((issue) => issue !== undefined);
}

/** Returns the servers of a store; none if it is a file. */
function storeAddresses(kv: string): Address[] {
  if (isPostgresUrl(kv)) return parsePostgresUrl(kv).hosts.map(withBrackets);
  const url = isUrl(kv) ? URL.parse(kv) : null;
  return url === null ? [] : [url];
}

/** `--allow-net` needs the brackets of an IPv6 address, connecting does not. */
function withBrackets({ hostname, port }: PostgresHost): Address {
  return { hostname: hostname.includes(":") ? `[${hostname}]` : hostname, port };
}

interface Address {
  readonly hostname: string;
  readonly port: string | number;
  readonly protocol?: string;
}

function netIssue(failure: string, { hostname, port, protocol }: Address): string | undefined {
  const host = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  return isGranted({ name: "net", host }) ? undefined : `${failure}: expected --allow-net=${host}`;
}
