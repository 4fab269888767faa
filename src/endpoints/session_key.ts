import { encodeBase64 } from "@std/encoding/base64";
import type { Clock } from "../clock.ts";
import type { Epochs } from "../crypto/epochs.ts";
import type { Client } from "../http/client_address.ts";
import { corsHeaders, type OriginContext, originRefusal } from "../http/origin.ts";
import { methodNotAllowed, Problem } from "../http/problem.ts";
import type { Log } from "../log.ts";
import type { RateLimit } from "../http/rate_limit.ts";
import type { StatusCode } from "@std/http/status";

/** What `GET /rep/session-key` needs. */
export interface SessionKeyOptions {
  /** How many SENSITIVE variables there are at this moment. */
  sensitiveCount: number;
  epochs: Epochs;
  rateLimit: RateLimit;
  clock: Clock;
  log: Log;
  /** How long a key may be used after it was issued. */
  ttlMs: number;
}

/** A session key (spec, Session key). */
export interface SessionKey {
  /** The AES-256 key, in base64. */
  readonly key: string;
  /** RFC 3339. */
  readonly expires_at: string;
}

/** Whose request it is, and from where. */
export interface SessionKeyCaller {
  readonly client: Client;
  readonly originContext: OriginContext;
}

const METHODS = ["GET", "OPTIONS"];
/** Spec, GET /rep/session-key. */
const CACHE_CONTROL = "no-store, no-cache, must-revalidate";

/**
 * `GET /rep/session-key`: the key that opens the SENSITIVE values a page was given (spec, GET /rep/session-key).
 *
 * In this order: 405, 404 (there is nothing to open), 403 (the origin may not), 400 and 410 (the epoch that `?kid=` names is
 * none, or over), 429 (too many requests), 503 (the store that keeps the master secret does not answer yet), then the key.
 */
export async function handleSessionKey(
  request: Request,
  caller: SessionKeyCaller,
  options: SessionKeyOptions,
): Promise<Response> {
  const headers = corsHeaders(caller.originContext);
  headers.set("cache-control", CACHE_CONTROL);
  const refuse = (status: StatusCode, detail: string) => new Problem(status, { detail, headers });

  if (!METHODS.includes(request.method)) throw methodNotAllowed(request.method, METHODS, headers);
  if (options.sensitiveCount === 0) throw refuse(404, "No SENSITIVE variables are configured");
  checkOrigin(caller, options.log, refuse);
  if (request.method === "OPTIONS") return preflight(headers);
  const kid = new URL(request.url).searchParams.get("kid") ?? options.epochs.current();
  requireValidKid(kid, caller, options, refuse);
  await checkRate(caller.client, options, headers);
  return Response.json(await issue(kid, caller, options, refuse), { headers });
}

type Refuse = (status: StatusCode, detail: string) => Problem;

function checkOrigin({ client, originContext }: SessionKeyCaller, log: Log, refuse: Refuse): void {
  const reason = originRefusal(originContext);
  if (reason === undefined) return;
  log.warn("rep.session_key.rejected", {
    client_ip: client.address,
    origin: shortened(originContext.origin),
    reason: "origin_mismatch",
    detail: reason,
  });
  throw refuse(403, `Cannot issue a session key: ${reason}`);
}

function requireValidKid(
  kid: string,
  { client, originContext }: SessionKeyCaller,
  options: SessionKeyOptions,
  refuse: Refuse,
): void {
  const verdict = options.epochs.checkKid(kid);
  if (verdict === "valid") return;
  const fields = { client_ip: client.address, origin: shortened(originContext.origin), reason: verdict };
  options.log.warn("rep.session_key.rejected", fields);
  if (verdict === "expired") throw refuse(410, "Cannot issue a key for this page: it is too old; load it again");
  throw refuse(400, `Cannot read kid: expected what the page's key_endpoint holds, got "${kid.slice(0, 40)}"`);
}

async function checkRate({ address, rateKey }: Client, { rateLimit, log }: SessionKeyOptions, headers: Headers) {
  const { isAllowed, used, retryAfterMs } = await rateLimit.take(rateKey);
  if (isAllowed) return;
  log.warn("rep.session_key.rate_limited", { client_ip: address, requests_in_window: used });
  const seconds = Math.ceil(retryAfterMs / 1_000);
  headers.set("retry-after", String(seconds)); // RFC 9110 §10.2.3
  throw new Problem(429, { detail: `Cannot issue another session key yet: try again in ${seconds} s`, headers });
}

async function issue(
  kid: string,
  { client, originContext }: SessionKeyCaller,
  { epochs, clock, log, ttlMs }: SessionKeyOptions,
  refuse: Refuse,
): Promise<SessionKey> {
  const keys = await epochs.keys(kid).catch((error) => {
    log.error("rep.session_key.failed", { client_ip: client.address, detail: String(error) });
    throw refuse(503, "Cannot issue a session key now: try again in some seconds");
  });
  const expiresAt = new Date(clock.now() + ttlMs).toISOString();
  // Spec, Audit event. Neither the key nor a value is in it.
  log.info("rep.session_key.issued", {
    client_ip: client.address,
    origin: shortened(originContext.origin),
    key_id: kid,
    expires_at: expiresAt,
  });
  return { key: encodeBase64(keys.blobKey), expires_at: expiresAt };
}

/** Fetch standard, CORS preflight. */
function preflight(headers: Headers): Response {
  headers.set("access-control-allow-methods", "GET");
  headers.set("access-control-max-age", "600");
  headers.set("allow", METHODS.join(", "));
  return new Response(null, { status: 204, headers });
}

/** A header can be 64 KiB long; a log line should not. */
function shortened(origin: string | null): string {
  return origin === null ? "none" : origin.slice(0, 200);
}
