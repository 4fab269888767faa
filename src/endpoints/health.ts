import { methodNotAllowed } from "../http/problem.ts";
import type { Tier } from "../variables/tier.ts";

/** The state of the gateway: `degraded` still serves all requests, `stopping` will soon serve none. */
export type HealthStatus = "healthy" | "degraded" | "stopping";

/** The body of `GET /rep/health` (spec, Health report). */
export interface HealthReport {
  readonly status: HealthStatus;
  /** The version of the gateway. */
  readonly version: string;
  /** The number of variables of each tier, defaults of the manifest included. */
  readonly variables: Readonly<Record<Tier, number>>;
  readonly guardrails: {
    /** The number of PUBLIC variables that look like secrets. */
    readonly warnings: number;
    /** The number of changes that strict mode has rejected since the start. */
    readonly blocked: number;
  };
  /** The whole seconds since the start. */
  readonly uptime_seconds: number;
}

const METHODS = ["GET", "HEAD"];

/**
 * Handles `GET /rep/health` (spec, GET /rep/health). The status is 200 even if the gateway is degraded, since
 * restarting a pod does not help if, for example, its last reload was rejected. It is 503 while the gateway is
 * stopping, so that load balancers send no new requests.
 *
 * @throws {Problem} 405 for methods other than GET and HEAD.
 */
export function handleHealth(request: Request, report: HealthReport): Response {
  if (!METHODS.includes(request.method)) throw methodNotAllowed(request.method, METHODS);
  const headers = { "content-type": "application/json", "cache-control": "no-store" };
  const body = request.method === "HEAD" ? null : JSON.stringify(report);
  return new Response(body, { status: report.status === "stopping" ? 503 : 200, headers });
}
