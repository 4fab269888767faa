import type { Changes } from "./changes/changes.ts";
import type { Tail } from "./changes/tail.ts";
import type { Configuration } from "./config/configuration.ts";
import type { Health } from "./endpoints/health.ts";
import type { RouteTable } from "./http/routes.ts";
import type { Transfers } from "./http/transfers.ts";
import type { Epochs } from "./keys/epochs.ts";
import type { Log } from "./observe/log.ts";
import type { Problems } from "./observe/problems.ts";
import type { PageValues } from "./pages/config_script.ts";
import type { CircuitBreaker } from "./store/circuit_breaker.ts";
import type { Clock } from "./values/clock.ts";

/** What an add-on may see of hot reload. */
export interface SeenChanges {
  /** The events that this process knows. */
  readonly tail: Pick<
    Tail,
    "events" | "head" | "hasReached" | "readForClient"
  >;
  /** Which configuration of all replicas is active. */
  readonly rollout: Pick<
    Changes["rollout"],
    | "active"
    | "activeRevision"
    | "conflicts"
    | "isActive"
    | "isAnnounced"
    | "members"
    | "rollback"
  >;
}

/** What an add-on may see of the gateway. */
export interface AddonParts {
  /** The path under which the endpoints are served: empty, or for example `/app`. */
  readonly basePath: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Counts the requests whose body is being received, and large responses. */
  readonly transfers: Transfers;
  readonly health: Pick<Health, "report" | "internalReport">;
  readonly configuration: Pick<
    Configuration,
    "digests" | "changedAt" | "rejection" | "snapshot"
  >;
  /** `undefined` without hot reload. */
  readonly changes: SeenChanges | undefined;
  readonly store: Pick<CircuitBreaker, "isAvailable" | "availability">;
  readonly epochs: Pick<Epochs, "hasMasterKey">;
  /** Returns the values of a page that is sent now. Without a change, `values` is the same object, at least until a reload. */
  readonly pageValues: () => PageValues;
}

/** What an add-on adds to the gateway. */
export interface Addition {
  /**
   * Endpoints of the public port, by their paths below the base path, which the URLs of requests contain. Before the gateway
   * is ready, it responds with 503 instead, unless an endpoint has `isServedAtStart`. One of the core comes before one of an
   * add-on, and a later add-on before an earlier one.
   */
  readonly routes?: RouteTable;
  /** Endpoints of the port that stays internal. */
  readonly internalRoutes?: RouteTable;
  /** Returns what is wrong, for the health report. */
  readonly problems?: () => Problems;
  /** Ends what the add-on does by itself, when the gateway closes. */
  readonly close?: () => void;
}

/**
 * Adds something to a gateway that the specification does not ask for. It is called once, when the parts of the gateway
 * exist and before the gateway starts. What users set for it, such as the allowed origins, its own function gets
 * (`src/gateway.ts`).
 */
export type Addon = (parts: AddonParts) => Addition;
