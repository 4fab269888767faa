import { encodeBase64 } from "@std/encoding/base64";
import type { StatusCode } from "@std/http/status";
import type { Client } from "../http/client_address.ts";
import { corsHeaders, type OriginContext, originRejection } from "../http/origin.ts";
import { Problem, PROBLEM_TYPE, problemBody } from "../http/problem.ts";
import { CORS_METHODS } from "../http/routes.ts";
import { type EpochKeys, type Epochs, UnknownMasterKeyError } from "../keys/epochs.ts";
import type { RateLimit } from "../keys/rate_limit.ts";
import type { RateDecision } from "../keys/sliding_window.ts";
import type { LabelOf } from "../observe/instruments.ts";
import type { Log } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import { type Rejection, RejectionLog } from "../observe/rejection_log.ts";
import type { Clock } from "../values/clock.ts";

/** Options of {@linkcode handleSessionKey}. */
interface SessionKeyOptions {
  /** The current number of SENSITIVE variables. */
  sensitiveCount: number;
  epochs: Epochs;
  rateLimit: RateLimit;
  rejections: RejectionLog;
  clock: Clock;
  log: Log;
  /** @default {none} */
  metrics?: Metrics;
  /** The advertised lifetime of a key, in milliseconds. */
  ttlMs: number;
}

/** Creates the log of rejected requests. Issued keys are not counted there, but always logged one by one. */
export function sessionKeyRejectionLog({ clock, log }: Pick<SessionKeyOptions, "clock" | "log">): RejectionLog {
  const summaryFields = (client_ip: string) => ({ client_ip });
  return new RejectionLog({ clock, log, summaryEvent: "rep.session_key.rejections", summaryFields });
}

/** Who sent the request. */
interface SessionKeyCaller {
  readonly client: Client;
  /** The query of the request's URL. */
  readonly search: string;
  readonly originContext: OriginContext;
}

/** As in the spec, GET /rep/session-key. */
const CACHE_CONTROL = "no-store, no-cache, must-revalidate";

/**
 * Handles `GET /rep/session-key`: issues the key that decrypts the SENSITIVE values of a page (endpoint specification,
 * GET /rep/session-key).
 *
 * @returns The key, or 429 over the rate limit.
 * @throws {Problem} In this order: 404 without SENSITIVE variables; 403 for a forbidden origin; 400 or 410 for a
 * malformed or expired `?kid=`; after the rate limit, 503 if the master key cannot be loaded from the store, and 410 if
 * the `?kid=` is of another master key.
 */
export function handleSessionKey(
  request: Request,
  caller: SessionKeyCaller,
  options: SessionKeyOptions,
): Response | Promise<Response> {
  const { originContext, client } = caller;
  const reject: Reject = (reason, status, detail) => {
    options.metrics?.count("rep.session_keys.rejected", 1, reason);
    return new Problem(status, { detail, headers: sessionKeyHeaders(originContext) });
  };
  if (options.sensitiveCount === 0) throw reject("not_configured", 404, "No SENSITIVE variables are configured");
  checkOrigin(caller, options.rejections, reject);
  if (request.method === "OPTIONS") return preflight(originContext);
  const kid = caller.search === "" ? null : new URLSearchParams(caller.search).get("kid");
  if (kid !== null) requireValidKid(kid, caller, options, reject);
  const respond = (decision: RateDecision) =>
    decision.isAllowed ? issueKey(kid, caller, options, reject) : tooManyRequests(decision, caller, options);
  const decision = options.rateLimit.take(client.clientKey);
  // Clients over their limit may be many and fast: their response takes neither a promise nor an error.
  return decision instanceof Promise ? decision.then(respond) : respond(decision);
}

async function issueKey(
  kid: string | null,
  caller: SessionKeyCaller,
  options: SessionKeyOptions,
  reject: Reject,
): Promise<Response> {
  const body = await issue(kid, caller, options, reject);
  options.metrics?.count("rep.session_keys.issued", 1);
  return new Response(body, { headers: responseHeaders(caller.originContext, "application/json") });
}

/** The headers of a response to an origin that has been checked. */
function responseHeaders({ origin }: OriginContext, contentType: string): Record<string, string> {
  const headers = { "vary": "Origin", "cache-control": CACHE_CONTROL, "content-type": contentType };
  return origin === null ? headers : { ...headers, "access-control-allow-origin": origin };
}

/** Returns the headers that every response has. */
export function sessionKeyHeaders(originContext: OriginContext): Headers {
  const headers = corsHeaders(originContext);
  headers.set("cache-control", CACHE_CONTROL);
  return headers;
}

/** Counts a rejection, and returns its problem. */
type Reject = (reason: LabelOf<"rep.session_keys.rejected">, status: StatusCode, detail: string) => Problem;

function checkOrigin(caller: SessionKeyCaller, rejections: RejectionLog, reject: Reject): void {
  const detail = originRejection(caller.originContext);
  if (detail === undefined) return;
  rejections.report(rejection(caller, "origin_mismatch", detail));
  throw reject("origin_mismatch", 403, `Cannot issue a session key: ${detail}`);
}

/** Like the rate limit, the log takes an IPv6 /64 for one client. */
function rejection({ client, originContext }: SessionKeyCaller, reason: string, detail?: string): Rejection {
  const fields = { client_ip: client.address, origin: truncate(originContext.origin), reason, detail };
  return { key: client.clientKey, reason, event: "rep.session_key.rejected", fields };
}

const TOO_OLD = "Cannot issue a session key: the page is too old and has to be reloaded";
const UNAVAILABLE = "Cannot issue a session key: the store is unavailable, try again in a few seconds";

function requireValidKid(
  kid: string,
  caller: SessionKeyCaller,
  { epochs, rejections }: SessionKeyOptions,
  reject: Reject,
): void {
  const check = epochs.checkKid(kid);
  if (check === "valid") return;
  rejections.report(rejection(caller, check));
  if (check === "expired") throw reject(check, 410, TOO_OLD);
  throw reject(check, 400, `Cannot read kid: expected the one in the page's key_endpoint, got "${kid.slice(0, 40)}"`);
}

/** Responds with 429, and counts and logs the rejection. */
function tooManyRequests(
  { used, retryAfterMs }: RateDecision,
  { client, originContext }: SessionKeyCaller,
  { rejections, metrics }: SessionKeyOptions,
): Response {
  const fields = { client_ip: client.address, requests_in_window: used };
  const event = "rep.session_key.rate_limited";
  rejections.report({ key: client.clientKey, reason: "rate_limited", event, fields });
  metrics?.count("rep.session_keys.rejected", 1, "rate_limited");
  const seconds = Math.ceil(retryAfterMs / 1_000);
  const body = problemBody(429, `Cannot issue a session key: too many requests, try again in ${seconds} s`);
  const retryAfter = { "retry-after": String(seconds) }; // RFC 9110 §10.2.3
  return new Response(body, {
    status: 429,
    headers: { ...responseHeaders(originContext, PROBLEM_TYPE), ...retryAfter },
  });
}

/** Returns the body of the response (endpoint specification, Session key). */
async function issue(
  kid: string | null,
  caller: SessionKeyCaller,
  options: SessionKeyOptions,
  reject: Reject,
): Promise<string> {
  const { clock, log, ttlMs } = options;
  const keys = await loadKeys(kid, caller, options, reject);
  const expiresAt = new Date(clock.now() + ttlMs).toISOString();
  // The audit event of the spec, one line for every key. It contains neither the key nor a value.
  log.info("rep.session_key.issued", {
    client_ip: caller.client.address,
    origin: truncate(caller.originContext.origin),
    key_id: keys.kid,
    expires_at: expiresAt,
  });
  // After `expires_at`, clients have to discard the key. It is that of the epoch, and works longer.
  return `{"key":"${encodeBase64(keys.blobKey)}","expires_at":"${expiresAt}"}`;
}

async function loadKeys(
  kid: string | null,
  caller: SessionKeyCaller,
  { epochs, rejections, log }: SessionKeyOptions,
  reject: Reject,
): Promise<EpochKeys> {
  try {
    return kid === null ? await epochs.keys(epochs.current()) : await epochs.keysOf(kid);
  } catch (error) {
    if (error instanceof UnknownMasterKeyError) {
      rejections.report(rejection(caller, "unknown_master_key"));
      throw reject("unknown_master_key", 410, TOO_OLD);
    }
    log.error("rep.session_key.failed", { client_ip: caller.client.address, detail: String(error) });
    throw reject("store_unavailable", 503, UNAVAILABLE);
  }
}

/** Responds to a CORS preflight (Fetch standard). The origin has been checked. */
function preflight(originContext: OriginContext): Response {
  const headers = sessionKeyHeaders(originContext);
  headers.set("access-control-allow-methods", "GET");
  headers.set("access-control-max-age", "600");
  headers.set("allow", CORS_METHODS.join(", "));
  return new Response(null, { status: 204, headers });
}

/** Truncates a header for the log. It can be 64 KiB long. */
function truncate(origin: string | null): string {
  return origin === null ? "none" : origin.slice(0, 200);
}
