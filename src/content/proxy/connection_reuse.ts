import type { IncomingHttpHeaders } from "node:http";

/**
 * Schemes that authenticate a connection, with every later request in it, instead of one request (RFC 4559 §6). The value of
 * a parameter that looks like one costs only a connection.
 */
const CONNECTION_SCHEME =
  /(?:^|,)\s*(?:ntlm|nego|kerberos|credssp|pku2u|livessp|spnego|gss)/i;

/**
 * Returns whether credentials or challenges, such as the values of `Authorization` or `WWW-Authenticate`, may authenticate
 * a connection.
 */
export function authenticatesConnection(...values: unknown[]): boolean {
  return CONNECTION_SCHEME.test(values.join());
}

/** Returns whether a response asks for such credentials, or continues with them. */
export function challengesConnection(headers: IncomingHttpHeaders): boolean {
  return authenticatesConnection(
    headers["www-authenticate"],
    headers["proxy-authenticate"],
  );
}

/** The parameter of `Keep-Alive`, in seconds, such as in `max=100, timeout=5` (RFC 2068 §19.7.1.1). */
const TIMEOUT = /\btimeout\s*=\s*"?(\d+)/i;

/** How long a connection may be idle if the upstream does not say it, in seconds. Many servers close it after 5 s. */
const DEFAULT_TIMEOUT_S = "5";

/** How much earlier than the upstream the gateway stops to use a connection: how long a request may be on its way. */
const MARGIN_MS = 1_000;

/**
 * Returns how long a connection may be idle after a response and still be reused, in milliseconds; 0 or less if it must not
 * be reused.
 */
export function maxIdleMs(headers: IncomingHttpHeaders): number {
  if (challengesConnection(headers)) return 0;
  const [, seconds = DEFAULT_TIMEOUT_S] =
    TIMEOUT.exec(String(headers["keep-alive"])) ?? [];
  return 1_000 * Number(seconds) - MARGIN_MS;
}
