import { methodNotAllowed } from "../http/problem.ts";
import { INSTRUMENTS } from "../metrics/instruments.ts";
import { countVariables, EMPTY_SNAPSHOT, type Snapshot } from "../variables/snapshot.ts";
import type { Tier } from "../variables/tier.ts";

/**
 * - `starting`: the ports are bound, but nothing is served yet.
 * - `healthy`
 * - `degraded`: everything is served, but the last reload was rejected or the store is unavailable.
 * - `stopping`: shutdown has begun.
 */
export type HealthStatus = "starting" | "healthy" | "degraded" | "stopping";

/**
 * Why a gateway is `degraded`:
 * - `config_refused`: the last reload was rejected, and the previous configuration stays active.
 * - `store_unavailable`: the last read or write of the store failed.
 */
export const HEALTH_PROBLEMS = INSTRUMENTS["rep.health.problem"].values;

/** The type of a problem. */
export type HealthProblem = (typeof HEALTH_PROBLEMS)[number];

/** The report of `GET /rep/health` (endpoint specification, Health report). */
interface HealthReport {
  readonly status: HealthStatus;
  /** The gateway's version. */
  readonly version: string;
  /** The number of variables in each tier, defaults of the manifest included. */
  readonly variables: Readonly<Record<Tier, number>>;
  readonly guardrails: {
    /** The number of PUBLIC variables that look like secrets. */
    readonly warnings: number;
    /** The number of changes that strict mode has rejected since the start. */
    readonly blocked: number;
  };
  readonly uptime_seconds: number;
  /** An addition to the spec, only if the status is `degraded`. */
  readonly problems?: readonly HealthProblem[];
}

/** What a health report is made from. */
interface HealthInput {
  status: HealthStatus;
  version: string;
  snapshot: Snapshot;
  blocked: number;
  uptimeMs: number;
  /** @default {[]} */
  problems?: readonly HealthProblem[];
}

/** Makes a health report. */
export function createHealthReport(input: HealthInput): HealthReport {
  const { status, version, snapshot, blocked, uptimeMs, problems = [] } = input;
  return {
    status,
    version,
    variables: countVariables(snapshot),
    guardrails: { warnings: snapshot.warnings.length, blocked },
    uptime_seconds: Math.floor(uptimeMs / 1_000),
    ...(status === "degraded" ? { problems } : {}),
  };
}

/** The report of a gateway that has no variables yet. */
export function startingReport(version: string, uptimeMs: number): HealthReport {
  return createHealthReport({ status: "starting", version, snapshot: EMPTY_SNAPSHOT, blocked: 0, uptimeMs });
}

/** Where the report is served (endpoint specification, GET /rep/health). */
export const HEALTH_PATH = "/rep/health";

const METHODS = ["GET", "HEAD"];

/** Whether a load balancer should send requests elsewhere. */
export function isUnavailable(status: HealthStatus): boolean {
  return status === "starting" || status === "stopping";
}

/**
 * `GET /rep/health` (endpoint specification, GET /rep/health). A degraded gateway answers 200: restarting it because
 * its last reload was rejected would not help.
 */
export function handleHealth(request: Request, report: HealthReport): Response {
  if (!METHODS.includes(request.method)) throw methodNotAllowed(request.method, METHODS);
  const headers = { "content-type": "application/json", "cache-control": "no-store" };
  const body = request.method === "HEAD" ? null : JSON.stringify(report);
  return new Response(body, { status: isUnavailable(report.status) ? 503 : 200, headers });
}
