import { hostOf, portOf } from "../values/urls.ts";
import { Problem } from "./problem.ts";

/** Returns whether requests are served at this origin of the gateway, which is {@linkcode Client.origin}. */
export type HostRule = (origin: string) => boolean;

interface HostPattern {
  /** The host name; for a wildcard, the parent domain with a leading dot. */
  readonly name: string;
  readonly isWildcard: boolean;
  /** `undefined` for any port. */
  readonly port: number | undefined;
}

/**
 * Creates the rule of `--allowed-hosts`. It protects against DNS rebinding: an attacker's host name resolves to the
 * address of the gateway, so that browsers treat the attacker's page and the gateway as the same origin.
 *
 * @param patterns Host names and IP addresses, such as `app.example.com`, `[::1]` or `localhost:8080`, and wildcards
 * such as `*.example.com`, which stands for all subdomains but not for `example.com`. A pattern without a port allows
 * any port, and an empty list any host.
 */
export function hostRule(patterns: readonly string[]): HostRule {
  if (patterns.length === 0) return () => true;
  const parsed = patterns.flatMap((text) => parsePattern(text) ?? []);
  let lastAllowed = ""; // most requests are for one host, and parsing it takes a tenth of the time of a page
  return (origin) => {
    if (origin === lastAllowed) return true;
    const url = new URL(origin);
    const isAllowed = parsed.some((pattern) => matches(pattern, url));
    if (isAllowed) lastAllowed = origin;
    return isAllowed;
  };
}

/**
 * Creates the rule for pages that only operators may see. It allows the allowed hosts, and IP addresses and `localhost`
 * for requests through a forwarded port. Any other name may belong to an attacker who uses DNS rebinding.
 */
export function internalHostRule(patterns: readonly string[]): HostRule {
  const isAllowed = hostRule(["localhost", ...patterns]);
  return (origin) => isAllowed(origin) || isAddress(new URL(origin).hostname);
}

/** Returns whether the host name of a URL is an IP address. `URL` accepts no other names of digits and dots. */
export function isAddress(hostname: string): boolean {
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
  const hostname = hostOf(new URL(url)); // in lower case and in Punycode, as browsers send it
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
  const host = hostOf(url);
  return isWildcard
    ? host.endsWith(name) && host.length > name.length
    : host === name;
}
