import { isGranted } from "../../values/runtime.ts";
import type { CommandOptions } from "../options/option_table.ts";
import { missingRead, resolveEnvPaths } from "../sources/sources.ts";

/**
 * Checks the permissions that files, directories, the store and the upstream require. Without this check, Deno would
 * prompt for them on a terminal.
 *
 * @returns A message for each missing permission.
 */
export async function checkPermissions(
  options: CommandOptions,
): Promise<string[]> {
  const { flag, paths } = resolveEnvPaths(options);
  const issues = [
    missingRead("--static-dir", options["static-dir"]),
    missingRead("--manifest", options.manifest),
    ...paths.map((path) => missingRead(flag, path)),
    missingRead("--tls-cert", options["tls-cert"]),
    missingRead("--tls-key", options["tls-key"]),
    await storeIssue(options.kv),
    options.upstream && upstreamIssue(options.upstream),
  ];
  return issues.filter((issue) => issue !== undefined);
}

async function storeIssue(kv: string | undefined): Promise<string | undefined> {
  if (kv === undefined || kv === ":memory:") return undefined;
  const { formatStorePath, missingPermission } = await import(
    "../../store/open_named.ts"
  );
  const missing = missingPermission(kv);
  return missing &&
    `Cannot open --kv "${formatStorePath(kv)}": expected ${missing}`;
}

function upstreamIssue(upstream: URL): string | undefined {
  const { hostname, port, protocol } = upstream;
  const host = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  return isGranted({ name: "net", host })
    ? undefined
    : `Cannot proxy to --upstream "${upstream}": expected --allow-net=${host}`;
}
