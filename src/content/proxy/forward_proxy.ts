import { parseList } from "../../core/http/headers.ts";
import { contains, parseIp, parseIpBlock } from "../../core/http/ip_address.ts";
import { readVariable } from "../../core/values/runtime.ts";

/**
 * Returns a warning if WebSockets to an upstream go to a forward proxy. In Deno, `WebSocket` follows `HTTP_PROXY` and the
 * like, and nothing turns that off, while requests of `node:http` go to the upstream directly.
 *
 * @param read Returns a variable of the environment.
 */
export function forwardProxyWarning(
  { protocol, hostname }: URL,
  read = readVariable,
): string | undefined {
  const names = [protocol.replace(":", "_proxy"), "all_proxy"];
  const variable = names.flatMap((name) => [name.toUpperCase(), name])
    .find(read);
  const host = hostname.replace(/^\[|\]$/g, "");
  const direct = parseList(read("NO_PROXY") ?? read("no_proxy") ?? null);
  if (variable === undefined || direct.some((it) => covers(it, host))) {
    return undefined;
  }
  const expected = [...direct, host].join();
  return `${variable} sends WebSockets to a proxy, but requests go to the upstream directly: expected NO_PROXY=${expected}`;
}

/** Returns whether an entry of `NO_PROXY` covers a host: an IP address or block, a domain with its subdomains, or `*`. */
function covers(entry: string, host: string): boolean {
  const address = parseIp(host);
  if (address === undefined) {
    return entry === "*" || `.${host}`.endsWith(entry.replace(/^\.?/, "."));
  }
  const block = parseIpBlock(entry);
  return block !== undefined && contains(block, address);
}
