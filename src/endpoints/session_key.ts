import { encodeBase64 } from "@std/encoding/base64";
import type { StatusCode } from "@std/http/status";
import type { Clock } from "../clock.ts";
import type { Epochs } from "../crypto/epochs.ts";
import type { Client } from "../http/client_address.ts";
import { corsHeaders, type OriginContext, originRefusal } from "../http/origin.ts";
import { methodNotAllowed, Problem } from "../http/problem.ts";
import type { RateLimit } from "../http/rate_limit.ts";
import type { Log } from "../log.ts";
import type { LabelOf } from "../metrics/instruments.ts";
import { type Metrics, noMetrics } from "../metrics/metrics.ts";

/** Options of {@linkcode handleSessionKey}. */
interface SessionKeyOptions {
  /** The current number of SENSITIVE variables. */
  sensitiveCount: number;
  epochs: Epochs;
  rateLimit: RateLimit;
  clock: Clock;
  log: Log;
  /** @default {noMetrics} */
  metrics?: Metrics;
  /** How long clients may use a key, in milliseconds. */
  ttlMs: number;
}

/** The body of the response (spec, Session key). */
interface SessionKey {
  /** The AES-256 key in base64. */
  readonly key: string;
  /** An RFC 3339 timestamp. */
  readonly expires_at: string;
}

/** Who sent the request. */
interface SessionKeyCaller {
  readonly client: Client;
  readonly originContext: OriginContext;
}

const METHODS = ["GET", "OPTIONS"];
/** As in the spec, GET /rep/session-key. */
const CACHE_CONTROL = "no-store, no-cache, must-revalidate";

/**
 * Handles `GET /rep/session-key`: issues the key that decrypts the SENSITIVE values of a page (spec, GET
 * /rep/session-key).
 *
 * @throws {Problem} In this order: 405; 404 without SENSITIVE variables; 403 for a forbidden origin; 400 or 410 for a
 * malformed or expired `?kid=`; 429 over the rate limit; 503 if the master secret cannot be loaded from the store.
 */
export async function handleSessionKey(
  request: Request,
  caller: SessionKeyCaller,
  options: SessionKeyOptions,
): Promise<Response> {
  const headers = corsHeaders(caller.originContext);
  headers.set("cache-control", CACHE_CONTROL);
  const { metrics = noMetrics } = options;
  const refuse: Refuse = (reason, status, detail) => {
    metrics.count("rep.session_keys.refused", 1, reason);
    return new Problem(status, { detail, headers });
  };

  if (!METHODS.includes(request.method)) throw methodNotAllowed(request.method, METHODS, headers);
  if (options.sensitiveCount === 0) throw refuse("not_configured", 404, "No SENSITIVE variables are configured");
  checkOrigin(caller, options.log, refuse);
  if (request.method === "OPTIONS") return preflight(headers);
  const kid = new URL(request.url).searchParams.get("kid") ?? options.epochs.current();
  requireValidKid(kid, caller, options, refuse);
  await checkRate(caller.client, options, headers, refuse);
  const key = await issue(kid, caller, options, refuse);
  metrics.count("rep.session_keys.issued", 1);
  return Response.json(key, { headers });
}

/** Counts a refusal and returns its problem. */
type Refuse = (reason: LabelOf<"rep.session_keys.refused">, status: StatusCode, detail: string) => Problem;

function checkOrigin({ client, originContext }: SessionKeyCaller, log: Log, refuse: Refuse): void {
  const reason = originRefusal(originContext);
  if (reason === undefined) return;
  log.warn("rep.session_key.rejected", {
    client_ip: client.address,
    origin: truncate(originContext.origin),
    reason: "origin_mismatch",
    detail: reason,
  });
  throw refuse("origin", 403, `Cannot issue a session key: ${reason}`);
}

function requireValidKid(
  kid: string,
  { client, originContext }: SessionKeyCaller,
  options: SessionKeyOptions,
  refuse: Refuse,
): void {
  const check = options.epochs.checkKid(kid);
  if (check === "valid") return;
  const fields = { client_ip: client.address, origin: truncate(originContext.origin), reason: check };
  options.log.warn("rep.session_key.rejected", fields);
  const detail = check === "expired"
    ? "Cannot issue a session key: the page is too old and has to be reloaded"
    : `Cannot read kid: expected the one in the page's key_endpoint, got "${kid.slice(0, 40)}"`;
  throw refuse(check, check === "expired" ? 410 : 400, detail);
}

async function checkRate(
  { address, rateKey }: Client,
  { rateLimit, log }: SessionKeyOptions,
  headers: Headers,
  refuse: Refuse,
): Promise<void> {
  const { isAllowed, used, retryAfterMs } = await rateLimit.take(rateKey);
  if (isAllowed) return;
  log.warn("rep.session_key.rate_limited", { client_ip: address, requests_in_window: used });
  const seconds = Math.ceil(retryAfterMs / 1_000);
  headers.set("retry-after", String(seconds)); // RFC 9110 §10.2.3
  throw refuse("rate_limited", 429, `Cannot issue a session key: too many requests, try again in ${seconds} s`);
}

async function issue(
  kid: string,
  { client, originContext }: SessionKeyCaller,
  { epochs, clock, log, ttlMs }: SessionKeyOptions,
  refuse: Refuse,
): Promise<SessionKey> {
  const { blobKey } = await epochs.keys(kid).catch((error) => {
    log.error("rep.session_key.failed", { client_ip: client.address, detail: String(error) });
    throw refuse(
      "store_unavailable",
      503,
      "Cannot issue a session key: the store is unavailable, try again in a few seconds",
    );
  });
  const expiresAt = new Date(clock.now() + ttlMs).toISOString();
  // The audit event of the spec. It contains neither the key nor a value.
  log.info("rep.session_key.issued", {
    client_ip: client.address,
    origin: truncate(originContext.origin),
    key_id: kid,
    expires_at: expiresAt,
  });
  return { key: encodeBase64(blobKey), expires_at: expiresAt };
}

/** Responds to a CORS preflight (Fetch standard). The origin has been checked. */
function preflight(headers: Headers): Response {
  headers.set("access-control-allow-methods", "GET");
  headers.set("access-control-max-age", "600");
  headers.set("allow", METHODS.join(", "));
  return new Response(null, { status: 204, headers });
}

/** Truncates a header for the log. It can be 64 KiB long. */
function truncate(origin: string | null): string {
  return origin === null ? "none" : origin.slice(0, 200);
}
