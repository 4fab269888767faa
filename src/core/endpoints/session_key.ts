import type { Configuration } from "../config/configuration.ts";
import { encodeBase64 } from "@std/encoding/base64";
import {
  corsHeaders,
  type OriginContext,
  originRejection,
  preflight,
  readOrigin,
} from "../http/origin.ts";
import { Problem, PROBLEM_TYPE, problemBody } from "../http/problem.ts";
import type { Client } from "../http/client_address.ts";
import {
  CORS_METHODS,
  type Endpoint,
  type RouteContext,
} from "../http/routes.ts";
import {
  type EpochKeys,
  type Epochs,
  fingerprintOf,
  type KidProblem,
} from "../keys/epochs.ts";
import type { RateDecision, RateLimit } from "../keys/rate_limit.ts";
import { AUDIT_EVENT, type Log, messageOf } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import { type Rejection, RejectionLog } from "../observe/rejection_log.ts";
import type { Rollout } from "../rollout/rollout.ts";
import type { Clock } from "../values/clock.ts";

/** Options of {@linkcode SessionKeys}. */
interface SessionKeyOptions {
  configuration: Configuration;
  epochs: Epochs;
  /** Knows the other replicas; `undefined` without hot reload. */
  rollout: Rollout | undefined;
  rateLimit: RateLimit;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  /** The advertised lifetime of a key, in milliseconds. */
  sessionKeyTtlMs: number;
  /** The origins that may request keys; if there are none, only the gateway's own may. */
  allowedOrigins: readonly string[];
}

/** The client that requests a key. */
interface Requester {
  readonly client: Client;
  readonly origin: OriginContext;
}

/** Why a request for a session key is rejected, with the status and the message for the client. */
const REJECTIONS = {
  not_configured: [404, "No SENSITIVE variables are configured"],
  origin_mismatch: [403, "Cannot issue a session key: "],
  malformed: [
    400,
    "Cannot read kid: expected the one in the page's key_endpoint, got ",
  ],
  expired: [
    410,
    "Cannot issue a session key: the page is too old and has to be reloaded",
  ],
  unknown_master_key: [
    410,
    "Cannot issue a session key: the page is from a gateway with another master key; reload it, and if that does not help, " +
    "its values and its keys come from two gateways, which need the same master key",
  ],
  other_master_key: [
    503,
    "Cannot issue a session key: the page is from a gateway with another master key; a retry may reach that one",
  ],
  clock_skew: [
    503,
    "Cannot issue a session key: the page is from a gateway whose clock differs; a retry may reach that one",
  ],
  rate_limited: [
    429,
    "Cannot issue a session key: too many requests, try again in ",
  ],
  store_unavailable: [
    503,
    "Cannot issue a session key: the store is unavailable, try again in a few seconds",
  ],
  not_logged: [
    503,
    "Cannot issue a session key: its audit line cannot be written, try again in a few seconds",
  ],
} as const;

type Reason = keyof typeof REJECTIONS;

/** Why a request for a session key is rejected, as the log and the metrics name it. */
export const SESSION_KEY_REJECTIONS = Object.keys(REJECTIONS);

/** The rejections that depend on the client and its page, and are logged and counted for each client. */
export const CLIENT_REJECTIONS = SESSION_KEY_REJECTIONS.filter((reason) =>
  !["not_configured", "store_unavailable", "not_logged"].includes(reason)
);

/** As in the spec, GET /rep/session-key. */
const CACHE_CONTROL = "no-store, no-cache, must-revalidate";

/**
 * `GET /rep/session-key`: issues the key that decrypts the SENSITIVE values of a page (endpoint specification, GET
 * /rep/session-key).
 */
export class SessionKeys {
  readonly endpoint: Endpoint = {
    methods: CORS_METHODS,
    handler: (request, context) => this.#respond(request, context),
    headersOf405: (request, context) =>
      sessionKeyHeaders(this.#originOf(request, context)),
  };
  readonly #options: SessionKeyOptions;
  readonly #rejections: RejectionLog;

  constructor(options: SessionKeyOptions) {
    this.#options = options;
    const { clock, log } = options;
    this.#rejections = new RejectionLog({
      clock,
      log,
      summaryEvent: "rep.session_key.rejections",
      summaryFields: (client_ip) => ({ client_ip }),
    });
  }

  /**
   * Responds with the key, or with 429 over the rate limit.
   *
   * @throws {Problem} In this order: 404 without SENSITIVE variables; 403 for a forbidden origin; 400 or 410 for a
   * malformed or expired `?kid=`; after the rate limit, 503 if the master key cannot be loaded from the store, 410 if the
   * `?kid=` is of a master key that is not known, 503 if it is of another replica's, or of an epoch in the future, and 503
   * if the audit line cannot be written.
   */
  async #respond(request: Request, context: RouteContext): Promise<Response> {
    const { url, client } = context;
    const requester = { client, origin: this.#originOf(request, context) };
    if (this.#options.configuration.snapshot.sensitive.size === 0) {
      throw this.#reject("not_configured", requester);
    }
    const mismatch = originRejection(requester.origin);
    if (mismatch !== undefined) {
      // It may name the gateway's own origin, which is the Host header of the request.
      throw this.#reject("origin_mismatch", requester, mismatch.slice(0, 400));
    }
    if (request.method === "OPTIONS") {
      const response = preflight(request, requester.origin, "GET");
      response.headers.set("cache-control", CACHE_CONTROL);
      return response;
    }
    const kid = new URLSearchParams(url.search).get("kid");
    if (kid !== null) this.#requireValidKid(kid, requester);
    const decision = await this.#options.rateLimit.take(client.clientKey);
    return decision.isAllowed
      ? await this.#issue(kid, requester)
      : this.#tooManyRequests(decision, requester);
  }

  /** Logs the rejections that have only been counted so far. */
  close(): void {
    this.#rejections.close();
  }

  #originOf(request: Request, context: RouteContext): OriginContext {
    return readOrigin(request, context, this.#options.allowedOrigins);
  }

  #requireValidKid(kid: string, requester: Requester): void {
    const check = this.#options.epochs.checkKid(kid);
    if (check === "valid") return;
    const got = check === "malformed" ? `"${kid.slice(0, 40)}"` : "";
    throw this.#reject(check, requester, got);
  }

  /**
   * Returned, not thrown as a {@linkcode Problem}: a client over its limit may be fast, and an error collects its
   * stack.
   */
  #tooManyRequests(
    { used, retryAfterMs }: RateDecision,
    { client, origin }: Requester,
  ): Response {
    this.#report({
      key: client.clientKey,
      reason: "rate_limited",
      event: "rep.session_key.rate_limited",
      fields: { client_ip: client.address, requests_in_window: used },
    });
    this.#options.metrics.count("rep.session_keys.rejected", 1, "rate_limited");
    const seconds = Math.ceil(retryAfterMs / 1_000);
    const [status, detail] = REJECTIONS.rate_limited;
    const body = problemBody(status, `${detail}${seconds} s`);
    const headers = sessionKeyHeaders(origin);
    headers["content-type"] = PROBLEM_TYPE;
    headers["retry-after"] = String(seconds); // RFC 9110 §10.2.3
    return new Response(body, { status, headers });
  }

  async #issue(kid: string | null, requester: Requester): Promise<Response> {
    const { clock, log, metrics, sessionKeyTtlMs } = this.#options;
    const keys = await this.#loadKeys(kid, requester);
    const expiresAt = new Date(clock.now() + sessionKeyTtlMs).toISOString();
    // The audit event of the spec, one line for every key. It contains neither the key nor a value.
    try {
      log.info(AUDIT_EVENT, {
        client_ip: requester.client.address,
        origin: truncate(requester.origin.origin),
        key_id: keys.kid,
        issuance_id: crypto.randomUUID(), // issued keys are tracked (REP-RFC-0001 §4.4), and many have the same `kid`
        expires_at: expiresAt,
      });
    } catch {
      throw this.#reject("not_logged", requester); // the metrics count it: a line about it could not be written either
    }
    metrics.count("rep.session_keys.issued", 1);
    // After `expires_at`, clients have to discard the key. It is the key of the epoch, and works longer.
    const key = encodeBase64(keys.sessionKey);
    const body = JSON.stringify({ key, expires_at: expiresAt });
    const headers = sessionKeyHeaders(requester.origin);
    headers["content-type"] = "application/json";
    return new Response(body, { headers });
  }

  async #loadKeys(
    kid: string | null,
    requester: Requester,
  ): Promise<EpochKeys> {
    const { epochs, rollout, log } = this.#options;
    let keys: EpochKeys | KidProblem;
    try {
      keys = kid === null
        ? await epochs.keys(epochs.current())
        : await epochs.keysOf(kid);
    } catch (error) {
      log.error("rep.session_key.failed", {
        client_ip: requester.client.address,
        detail: messageOf(error),
      });
      throw this.#reject("store_unavailable", requester);
    }
    if (typeof keys !== "string") return keys;
    const isOfReplica = keys === "unknown_master_key" &&
      rollout?.hasMasterKey(fingerprintOf(kid ?? ""));
    throw this.#reject(isOfReplica ? "other_master_key" : keys, requester);
  }

  /** Counts a rejection, logs it if its client is the reason, and returns its problem, whose message ends in `rest`. */
  #reject(
    reason: Reason,
    { client, origin }: Requester,
    rest = "",
  ): Problem {
    this.#options.metrics.count("rep.session_keys.rejected", 1, reason);
    if (CLIENT_REJECTIONS.includes(reason)) {
      this.#report({
        key: client.clientKey, // like the rate limit, the log treats an IPv6 /64 as one client
        reason,
        event: "rep.session_key.rejected",
        fields: {
          client_ip: client.address,
          origin: truncate(origin.origin),
          reason,
          detail: reason === "origin_mismatch" ? rest : undefined,
        },
      });
    }
    const [status, detail] = REJECTIONS[reason];
    const headers = sessionKeyHeaders(origin);
    return new Problem(status, { detail: detail + rest, headers });
  }

  /** Logs a rejection, and counts its client unless it has just been rejected for the same reason. */
  #report(rejection: Rejection): void {
    if (!this.#rejections.report(rejection)) return;
    const { metrics } = this.#options;
    metrics.count("rep.session_keys.rejected_clients", 1, rejection.reason);
  }
}

/** Returns the headers of every response. */
function sessionKeyHeaders(origin: OriginContext): Record<string, string> {
  const headers = corsHeaders(origin);
  headers["cache-control"] = CACHE_CONTROL;
  return headers;
}

/** Truncates a header for the log. It can be 64 KiB long. */
function truncate(origin: string | null): string {
  return origin === null ? "none" : origin.slice(0, 200);
}
