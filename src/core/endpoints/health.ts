import type { Changes } from "../changes/changes.ts";
import type { Configuration } from "../config/configuration.ts";
import type { StoredVariablesSource } from "../config/stored/stored_variables_source.ts";
import {
  countVariables,
  EMPTY_SNAPSHOT,
} from "../config/variables/snapshot.ts";
import { type Endpoint, READ_METHODS } from "../http/routes.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Problems } from "../observe/problems.ts";
import type { OwnBuild } from "../own_build.ts";
import type { CircuitBreaker } from "../store/circuit_breaker.ts";
import type { Clock } from "../values/clock.ts";
import { formatTime } from "../values/units.ts";

/**
 * - `starting`: the ports are bound, but nothing is served yet. `store_unavailable` is then why.
 * - `healthy`
 * - `degraded`: requests are served, but there is a problem.
 * - `stopping`: shutdown has begun.
 */
export type HealthStatus = "starting" | "healthy" | "degraded" | "stopping";

/**
 * Why a gateway is `degraded`, or still `starting`:
 * - `config_rejected`: the last reload was rejected, and the previous sources stay active.
 * - `store_unavailable`: the last read or write of the store failed.
 * - `change_waiting`: a change of PUBLIC values has been read, but cannot be published.
 * - `store_emptied`: the store came back without the variables that were set, and nobody has asked for a reload since.
 * - `certificate_rejected`: the newest TLS certificate was rejected, and the previous one stays in use.
 * - `certificate_ended`: the TLS certificate has ended, so clients reject it.
 * - `other_app`: living gateways of another app use the same store, and only the app that came first publishes.
 * - `other_master_key`: a living replica uses another master key.
 * - `clock_skew`: the clocks of this process and of a living replica differ by more than a minute.
 */
export const HEALTH_PROBLEMS = [
  "config_rejected",
  "store_unavailable",
  "change_waiting",
  "store_emptied",
  "certificate_rejected",
  "certificate_ended",
  "other_app",
  "other_master_key",
  "clock_skew",
] as const;

/** The health of a process, whether its gateway runs or is still starting. */
export interface HealthState {
  /** Returns the report of `GET /rep/health`. */
  report(): HealthReport;
}

/** The report of `GET /rep/health` (endpoint specification, Health report), with additions to it: the optional members. */
export interface HealthReport {
  readonly status: HealthStatus;
  readonly version: string;
  readonly variables: ReturnType<typeof countVariables>;
  readonly guardrails: { readonly warnings: number; readonly blocked: number };
  readonly uptime_seconds: number;
  /** The ID of the app's build that this process delivers, if it is known. */
  readonly build?: string | undefined;
  /** The builds that all replicas deliver now, for operators, if any is known. During an update, there are several. */
  readonly builds?: readonly string[] | undefined;
  /** Why it is degraded, or still starting. Those of the core are {@linkcode HEALTH_PROBLEMS}. */
  readonly problems?: readonly string[] | undefined;
  /** Since when, by type. */
  readonly problems_since?: Readonly<Record<string, string>> | undefined;
}

function createReport(
  status: HealthStatus,
  version: string,
  build: string | undefined,
  { snapshot, blocked }: Pick<Configuration, "snapshot" | "blocked">,
  uptimeMs: number,
): HealthReport {
  return {
    status,
    version,
    variables: countVariables(snapshot),
    guardrails: { warnings: snapshot.warnings.length, blocked },
    uptime_seconds: Math.floor(uptimeMs / 1_000),
    build,
  };
}

/** What the health of a gateway depends on. */
interface HealthOptions {
  readonly version: string;
  readonly build: Pick<OwnBuild, "id">;
  readonly configuration: Configuration;
  readonly store: CircuitBreaker;
  readonly storedVariables: StoredVariablesSource;
  /** `undefined` without hot reload. */
  readonly changes: Changes | undefined;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** The health of a gateway. Everything is read on request. */
export class Health implements HealthState {
  readonly #options: HealthOptions;
  readonly #startedAt: number;
  /** Whether the gateway does not serve anything yet. */
  isStarting = false;
  /** Whether the shutdown has begun. */
  isStopping = false;
  /** Returns what is wrong with what is added to the core, which is created later. */
  problemsAround: () => Problems = () => ({});

  constructor(options: HealthOptions) {
    this.#options = options;
    this.#startedAt = options.clock.monotonic();
    options.metrics.observe("rep.health.problem", () => this.#gauges());
  }

  /** Returns the report of `GET /rep/health`. */
  report(): HealthReport {
    const { version, build, configuration, clock } = this.#options;
    const uptimeMs = clock.monotonic() - this.#startedAt;
    const problems = this.#problems();
    const status = this.#statusWith(problems);
    const { id } = build;
    const report = createReport(status, version, id, configuration, uptimeMs);
    if (problems.size === 0 || status === "stopping") return report;
    const since = [...problems].map(([type, at]) => [type, formatTime(at)]);
    return {
      ...report,
      problems: [...problems.keys()],
      problems_since: Object.fromEntries(since),
    };
  }

  /** Returns the report on a port that stays internal, which also has the builds of the other replicas. */
  internalReport(): HealthReport {
    const report = this.report();
    const own = report.build === undefined ? [] : [report.build];
    const builds = this.#options.changes?.rollout.builds.names ?? own;
    return builds.length > 0 ? { ...report, builds } : report;
  }

  /** A gateway with problems serves everything, and is degraded. */
  #statusWith(problems: ReadonlyMap<string, number>): HealthStatus {
    if (this.isStopping) return "stopping";
    if (this.isStarting) return "starting";
    return problems.size > 0 ? "degraded" : "healthy";
  }

  /** Each part knows since when: a problem need not be asked about when it begins. */
  #problems(): ReadonlyMap<string, number> {
    const { configuration, store, storedVariables, changes } = this.#options;
    const { isAvailable, at } = store.availability;
    const conflicts = changes?.rollout.conflicts.ongoing ?? [];
    const own: Problems = {
      config_rejected: configuration.rejection?.since,
      store_unavailable: isAvailable ? undefined : at,
      change_waiting: changes?.publisher.changeWaitsSince,
      store_emptied: storedVariables.emptiedAt,
    };
    const found = new Map<string, number>();
    for (const problems of [own, this.problemsAround()]) {
      for (const [type, since] of Object.entries(problems)) {
        if (since !== undefined) found.set(type, since);
      }
    }
    for (const { type, since } of conflicts) found.set(type, since);
    return found;
  }

  #gauges(): ReadonlyMap<string, number> {
    const problems = this.#problems();
    const types = new Set([...HEALTH_PROBLEMS, ...problems.keys()]);
    return new Map(
      [...types].map((type) => [type, Number(problems.has(type))]),
    );
  }
}

/** Returns the health of a process whose gateway does not run yet. */
export function startingHealth(
  version: string,
  clock: Clock,
): HealthState {
  const startedAt = clock.monotonic();
  const configuration = { snapshot: EMPTY_SNAPSHOT, blocked: 0 };
  return {
    report() {
      const uptimeMs = clock.monotonic() - startedAt;
      return createReport(
        "starting",
        version,
        undefined,
        configuration,
        uptimeMs,
      );
    },
  };
}

/**
 * Creates the endpoint `GET /rep/health` (endpoint specification, GET /rep/health). A degraded gateway responds with 200:
 * restarting it because its last reload was rejected would not help.
 */
export function createHealthEndpoint(readReport: () => HealthReport): Endpoint {
  const handler = ({ method }: Request) => {
    const report = readReport();
    const body = method === "HEAD" ? null : JSON.stringify(report);
    const status = isUnavailable(report.status) ? 503 : 200;
    return new Response(body, { status, headers: REPORT_HEADERS });
  };
  return {
    methods: READ_METHODS,
    isForAnyHost: true,
    isServedAtStart: true,
    handler,
    respondAtOnce: handler,
  };
}

const REPORT_HEADERS = new Headers({
  "content-type": "application/json",
  "cache-control": "no-store",
});

/** The endpoint `GET /livez`: 200 for as long as the process responds. */
export const LIVE_ENDPOINT: Endpoint = {
  methods: READ_METHODS,
  handler: ({ method }) => probe(method, "live", 200),
};

/**
 * Creates the endpoint `GET /readyz`: 503 while the gateway starts or stops, with the reason. A degraded gateway is ready,
 * since it serves everything.
 */
export function createReadyEndpoint(health: HealthState): Endpoint {
  return {
    methods: READ_METHODS,
    handler({ method }) {
      const { status, problems = [] } = health.report();
      if (!isUnavailable(status)) return probe(method, status, 200);
      return probe(method, [status, ...problems].join(" "), 503);
    },
  };
}

/** Whether a load balancer should send requests elsewhere. */
function isUnavailable(status: HealthStatus): boolean {
  return status === "starting" || status === "stopping";
}

function probe(method: string, text: string, status: number): Response {
  const headers = {
    "content-type": "text/plain; charset=utf-8",
    "cache-control": "no-store",
  };
  const body = method === "HEAD" ? null : `${text}\n`;
  return new Response(body, { status, headers });
}
