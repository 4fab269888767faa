import type { Changes } from "./changes/changes.ts";
import type { Configuration } from "./config/configuration.ts";
import type { HealthState } from "./endpoints/health.ts";
import type { RouteTable } from "./http/routes.ts";
import type { Epochs } from "./keys/epochs.ts";
import type { PageValues } from "./pages/config_script.ts";
import type { CircuitBreaker } from "./store/circuit_breaker.ts";

/** What an add-on may see of the gateway. */
export interface AddonParts {
  readonly health: HealthState;
  readonly configuration: Configuration;
  /** `undefined` without hot reload. */
  readonly changes: Changes | undefined;
  readonly store: CircuitBreaker;
  readonly epochs: Pick<Epochs, "hasMasterKey">;
  /** Returns the values of a page that is sent now. */
  readonly pageValues: (knownId?: number) => PageValues;
}

/** What an add-on adds to the gateway. */
export interface Addition {
  /** Endpoints of the public port, below the base path. */
  readonly routes?: RouteTable;
  /** Endpoints of the port that stays internal. */
  readonly internalRoutes?: RouteTable;
  /** Ends what the add-on does by itself. */
  readonly close?: () => void;
}

/**
 * Adds something to a gateway that the specification does not ask for. It is called once, when the parts of the gateway
 * exist and before the gateway starts.
 */
export type Addon = (parts: AddonParts) => Addition;
