import type { Changes } from "../changes/changes.ts";
import type { Configuration } from "../config/configuration.ts";
import {
  countVariables,
  EMPTY_SNAPSHOT,
  type Snapshot,
} from "../config/variables/snapshot.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { CircuitBreaker } from "../store/circuit_breaker.ts";
import type { Clock } from "../values/clock.ts";
import { VERSION } from "../values/version.ts";

/**
 * - `starting`: the ports are bound, but nothing is served yet.
 * - `healthy`
 * - `degraded`: requests are served, but there is a problem.
 * - `stopping`: shutdown has begun.
 */
export type HealthStatus = "starting" | "healthy" | "degraded" | "stopping";

/**
 * Why a gateway is `degraded`:
 * - `config_rejected`: the last reload was rejected, and the previous configuration stays active.
 * - `store_unavailable`: the last read or write of the store failed.
 * - `certificate_ended`: the TLS certificate has ended, so that clients reject it.
 * - `uncaught_error`: the process is in an unknown state until it is restarted.
 * - `other_app`: living gateways of another app have the same store, and neither publishes.
 * - `other_master_key`: a living replica has another master key.
 * - `clock_skew`: the clocks of this process and of a living replica differ by more than a minute.
 */
export const HEALTH_PROBLEMS = [
  "config_rejected",
  "store_unavailable",
  "certificate_ended",
  "uncaught_error",
  "other_app",
  "other_master_key",
  "clock_skew",
] as const;

/** The type of a problem. */
type HealthProblem = (typeof HEALTH_PROBLEMS)[number];

/** What a gateway has problems with; a {@linkcode Core} has all of it. */
interface ProblemState {
  readonly configuration: Pick<Configuration, "isReloadRejected">;
  readonly store: Pick<CircuitBreaker, "isAvailable">;
  readonly certificateSeconds: number;
  /** Aborted after an error that was not caught. */
  readonly failure: AbortSignal;
  /** `undefined` without hot reload. */
  readonly changes: Pick<Changes, "conflicts"> | undefined;
}

/** Returns why a gateway is `degraded`. */
export function problemsOf(state: ProblemState): readonly HealthProblem[] {
  const { configuration, store, certificateSeconds, failure, changes } = state;
  // in the order of the list
  const arePresent = [
    configuration.isReloadRejected,
    !store.isAvailable,
    certificateSeconds <= 0,
    failure.aborted,
  ];
  const own = HEALTH_PROBLEMS.filter((_problem, index) => arePresent[index]);
  const conflicts = changes?.conflicts.map(({ type }) => type) ?? [];
  return [...own, ...conflicts];
}

/** Exports each problem as a gauge. */
export function observeProblems(metrics: Metrics, state: ProblemState): void {
  metrics.observe("rep.health.problem", () => {
    const problems = problemsOf(state);
    return new Map(
      HEALTH_PROBLEMS.map((type) => [type, Number(problems.includes(type))]),
    );
  });
}

/** What a health report is made from, except for the time. */
export interface HealthState {
  readonly status: HealthStatus;
  readonly snapshot: Snapshot;
  readonly blocked: number;
  readonly problems: readonly HealthProblem[];
}

/** The state of a gateway that has no variables yet. */
export const STARTING: HealthState = {
  status: "starting",
  snapshot: EMPTY_SNAPSHOT,
  blocked: 0,
  problems: [],
};

/** Where the report is served (endpoint specification, GET /rep/health). */
export const HEALTH_PATH = "/rep/health";

/** Whether a load balancer should send requests elsewhere. */
export function isUnavailable(status: HealthStatus): boolean {
  return status === "starting" || status === "stopping";
}

const HEADERS = {
  "content-type": "application/json",
  "cache-control": "no-store",
};
const AVAILABLE: ResponseInit = { status: 200, headers: HEADERS };
const UNAVAILABLE: ResponseInit = { status: 503, headers: HEADERS };

/**
 * `GET /rep/health` (endpoint specification, GET /rep/health). A degraded gateway responds with 200: restarting it because
 * its last reload was rejected would not help.
 *
 * The report is serialized when the state or the second of the uptime has changed, and not for each request.
 */
export class HealthEndpoint {
  readonly #clock: Clock;
  readonly #startedAt: number;
  #state: HealthState | undefined;
  #uptimeSeconds = 0;
  #body = "";

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startedAt = clock.monotonic();
  }

  /** Responds with the report of a state. */
  respond({ method }: Request, state: HealthState): Response {
    const init = isUnavailable(state.status) ? UNAVAILABLE : AVAILABLE;
    return new Response(
      method === "HEAD" ? null : this.#serialize(state),
      init,
    );
  }

  /** Returns the report of a state. */
  report(state: HealthState): HealthReport {
    return createReport(state, this.#readUptime());
  }

  #readUptime(): number {
    return Math.floor((this.#clock.monotonic() - this.#startedAt) / 1_000);
  }

  #serialize(state: HealthState): string {
    const uptimeSeconds = this.#readUptime();
    if (uptimeSeconds === this.#uptimeSeconds && isSame(state, this.#state)) {
      return this.#body;
    }
    this.#state = state;
    this.#uptimeSeconds = uptimeSeconds;
    return this.#body = JSON.stringify(createReport(state, uptimeSeconds));
  }
}

function isSame(state: HealthState, other: HealthState | undefined): boolean {
  return state.status === other?.status && state.snapshot === other.snapshot &&
    state.blocked === other.blocked &&
    state.problems.join() === other.problems.join();
}

/** The report of `GET /rep/health`. */
export type HealthReport = ReturnType<typeof createReport>;

/** Creates the report of `GET /rep/health` (endpoint specification, Health report). */
function createReport(state: HealthState, uptimeSeconds: number) {
  const { status, snapshot, blocked, problems } = state;
  return {
    status,
    version: VERSION,
    variables: countVariables(snapshot),
    guardrails: { warnings: snapshot.warnings.length, blocked },
    uptime_seconds: uptimeSeconds,
    ...(status === "degraded" ? { problems } : {}), // an addition to the spec
  };
}
