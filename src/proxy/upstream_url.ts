/**
 * Parses the URL of an upstream.
 *
 * @throws {TypeError} If it is not an `http:` or `https:` URL, or has a user name, a password, a query or a fragment.
 */
export function parseUpstreamUrl(upstream: URL | string): URL {
  const url = URL.canParse(upstream) ? new URL(upstream) : undefined;
  if (url !== undefined && isPlain(url)) return url;
  const expected = "an http: or https: URL without user name, password, query and fragment";
  throw new TypeError(`Cannot proxy to "${withoutCredentials(url ?? upstream)}": expected ${expected}`);
}

function isPlain({ protocol, username, password, search, hash }: URL): boolean {
  return /^https?:$/.test(protocol) && [username, password, search, hash].every((part) => part === "");
}

function withoutCredentials(upstream: URL | string): string {
  if (upstream instanceof URL && upstream.host !== "") return `${upstream.protocol}//${upstream.host}`;
  return String(upstream).replace(/[?#].*/s, "").replace(/^.*@/s, "");
}
