import { Problem } from "./problem.ts";

/** Returns whether requests to an origin of the gateway, such as {@linkcode Client.origin}, are served. */
export type HostRule = (origin: string) => boolean;

interface HostPattern {
  /** The host name, or the parent domain of a wildcard with its leading dot. */
  readonly name: string;
  readonly isWildcard: boolean;
  /** `undefined` for any port. */
  readonly port: number | undefined;
}

/**
 * Creates the rule of `--allowed-hosts`. It protects against DNS rebinding, in which an attacker's host name resolves
 * to the address of the gateway, so that browsers treat the attacker's page and the gateway as the same origin.
 *
 * @param patterns Host names and IP addresses, such as `app.example.com`, `[::1]` or `localhost:8080`, and wildcards
 * such as `*.example.com`, which stands for all subdomains but not for `example.com`. Without a port, any port is
 * allowed. An empty list allows any host.
 */
export function hostRule(patterns: readonly string[]): HostRule {
  if (patterns.length === 0) return () => true;
  const parsed = patterns.map(parsePattern).filter((pattern) =>
    pattern !== undefined
  );
  return (origin) => {
    const url = new URL(origin);
    return parsed.some((pattern) => matches(pattern, url));
  };
}

/**
 * Creates the rule for pages that only operators may see. It allows IP addresses, as through a forwarded port,
 * `localhost`, and the allowed hosts. Any other name may belong to an attacker, who lets it resolve to an address of
 * the operator.
 */
export function internalHostRule(patterns: readonly string[]): HostRule {
  const isAllowed = hostRule(["localhost", ...patterns]);
  return (origin) => isAllowed(origin) || isAddress(new URL(origin).hostname);
}

/** Returns whether the host name of a URL is an IP address: `URL` accepts no other name of digits and dots. */
function isAddress(hostname: string): boolean {
  return hostname.startsWith("[") || /^[\d.]+$/.test(hostname);
}

/** Valid patterns, for error messages. */
export const EXPECTED_HOSTS =
  "hosts such as app.example.com, localhost:8080 or *.example.com";

/** Returns whether text is a valid pattern for {@linkcode hostRule}. */
export function isHostPattern(text: string): boolean {
  return parsePattern(text) !== undefined;
}

/**
 * Checks the host of a request.
 *
 * @throws {Problem} 421 if the host is not allowed (RFC 9110 §15.5.20).
 */
export function requireAllowedHost(origin: string, isAllowed: HostRule): void {
  if (isAllowed(origin)) return;
  const host = new URL(origin).host.slice(0, 100);
  throw new Problem(421, {
    detail:
      `Cannot serve the host "${host}": expected one of the allowed hosts`,
  });
}

const PATTERN = /^(\*\.)?([^\s*/?#@\\:%[\]]+|\[[\da-f:.]+\])(?::(\d{1,5}))?$/i;

function parsePattern(text: string): HostPattern | undefined {
  const [, wildcard, host, port] = PATTERN.exec(text) ?? [];
  const url = `http://${host}`;
  if (host === undefined || !URL.canParse(url) || Number(port ?? 0) > 65_535) {
    return undefined;
  }
  const { hostname } = new URL(url); // in lower case, and international names as browsers send them
  if (wildcard && isAddress(hostname)) return undefined;
  const name = wildcard ? `.${hostname}` : hostname;
  return {
    name,
    isWildcard: wildcard !== undefined,
    port: port === undefined ? undefined : Number(port),
  };
}

function matches({ name, isWildcard, port }: HostPattern, url: URL): boolean {
  if (port !== undefined && port !== portOf(url)) return false;
  return isWildcard
    ? url.hostname.endsWith(name) && url.hostname.length > name.length
    : url.hostname === name;
}

function portOf({ port, protocol }: URL): number {
  if (port !== "") return Number(port);
  return protocol === "https:" ? 443 : 80;
}
