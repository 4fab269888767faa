/** A valid base path, for error messages. */
export const EXPECTED_BASE_PATH = "a path such as /app";

/**
 * Parses the path under which everything is served.
 *
 * @returns The path without a slash at its end, which is an empty string for `/` or nothing; `undefined` if browsers
 * would send the path in another form.
 */
export function parseBasePath(text: string): string | undefined {
  const path = text.replace(/\/$/, "");
  if (path === "") return "";
  if (!path.startsWith("/") || path.endsWith("/")) return undefined;
  if (path.includes("//") || /[?#]/.test(path)) return undefined;
  const isNormalized =
    URL.parse(path, "http://host")?.href === `http://host${path}`;
  return isNormalized ? path : undefined;
}

/** Returns the host name of a URL without the dot of the root, with which it is the same host (RFC 1034 §3.1). */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/\.$/, "");
}

/** Returns the port of an `http:` or `https:` URL. */
export function portOf({ port, protocol }: URL): number {
  if (port !== "") return Number(port);
  return protocol === "https:" ? 443 : 80;
}

/** Formats an address as in a URL and for `--allow-net`: IPv6 in brackets. */
export function hostAndPort(hostname: string, port: number): string {
  const isBare = hostname.includes(":") && !hostname.startsWith("[");
  const host = isBare ? `[${hostname}]` : hostname;
  return `${host}:${port}`;
}

/** A valid upstream, for error messages. */
export const EXPECTED_UPSTREAM =
  "an http: or https: URL without credentials, query and fragment, such as http://127.0.0.1:3000";

/**
 * Parses the URL of an upstream. Its path is the base path of all proxied requests.
 *
 * @returns `undefined` if it is not an absolute `http:` or `https:` URL, or contains credentials, a query or a fragment.
 */
export function parseUpstream(upstream: URL | string): URL | undefined {
  const url = URL.parse(upstream);
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined;
  const rest = url.username + url.password + url.search + url.hash;
  return rest === "" ? url : undefined;
}

/**
 * Formats a URL for a message, even if it is malformed: an ellipsis replaces credentials, query, fragment and an invalid
 * port. In a malformed URL, the password may contain any character, so everything up to the last `@` counts as
 * credentials. Of a list such as `host=… password=…`, only the first name is left.
 */
export function redactUrl(url: URL | string): string {
  const port =
    /^([a-z][a-z0-9+.-]*:\/\/[^\s/:@[]*):(?!\d{1,5}(?:[/?#,]|$))[^/]*/i;
  return String(url)
    .replace(/^([^:/@?#=]*=).*$/s, "$1…")
    .replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/is, "$1…@")
    .replace(port, "$1:…")
    .replace(/[?#].*$/s, "?…");
}

/**
 * Replaces the credentials of all URLs in a text, such as an error message, by an ellipsis (RFC 3986 §3.2.1). It keeps
 * the placeholders of messages that show how to write a URL.
 */
export function redactCredentials(text: string): string {
  return text.replace(/:\/\/(?!USER\[:PASSWORD\]@)[^\s/?#"'()]*@/g, "://…@");
}
