import { methodNotAllowed } from "../http/problem.ts";
import type { Tier } from "../variables/tier.ts";

/** How the gateway is: `degraded` still serves, `stopping` soon does not. */
export type HealthStatus = "healthy" | "degraded" | "stopping";

/** The report of `GET /rep/health` (spec, Health report). */
export interface HealthReport {
  readonly status: HealthStatus;
  /** The gateway's version. */
  readonly version: string;
  /** How many variables there are of each tier, defaults of the manifest included. */
  readonly variables: Readonly<Record<Tier, number>>;
  readonly guardrails: {
    /** How many PUBLIC variables look like secrets. */
    readonly warnings: number;
    /** How many changes strict mode has refused since the start. */
    readonly blocked: number;
  };
  readonly uptime_seconds: number;
}

const METHODS = ["GET", "HEAD"];

/**
 * `GET /rep/health` (spec, GET /rep/health). 200 also when degraded: nobody is helped by a pod that is restarted because its
 * last reload was refused. 503 once the gateway is stopping, so that a load balancer sends no one here any more.
 */
export function handleHealth(request: Request, report: HealthReport): Response {
  if (!METHODS.includes(request.method)) throw methodNotAllowed(request.method, METHODS);
  const headers = { "content-type": "application/json", "cache-control": "no-store" };
  const body = request.method === "HEAD" ? null : JSON.stringify(report);
  return new Response(body, { status: report.status === "stopping" ? 503 : 200, headers });
}
