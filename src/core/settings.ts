import type { SnapshotSources } from "./config/variables/snapshot.ts";
import type { Log } from "./observe/log.ts";
import type { Metrics } from "./observe/metrics.ts";
import type { Telemetry } from "./observe/telemetry.ts";
import type { CircuitBreaker } from "./store/circuit_breaker.ts";
import type { Budget } from "./values/budget.ts";
import type { Clock } from "./values/clock.ts";

/** What users set: plain data, checked, with every default applied. `GatewayOptions` describes each by its name. */
export interface CoreSettings {
  readonly hotReload: boolean;
  /** Normalized. */
  readonly allowedOrigins: readonly string[];
  readonly allowedHosts: readonly string[];
  readonly trustedProxies: readonly string[];
  readonly separateHealth: boolean;
  /** Without a slash at its end: an empty string if everything is served under `/`. */
  readonly basePath: string;
  readonly masterKey: Uint8Array<ArrayBuffer> | undefined;
  readonly sessionKeyTtlMs: number;
  readonly sessionKeyMaxRate: number;
  readonly keyRotationMs: number;
  readonly keyRetentionMs: number;
  readonly maxStreams: number;
  readonly maxStreamsPerClient: number;
  readonly maxStreamAgeMs: number;
  readonly pollMs: number | undefined;
  readonly instanceId: string | undefined;
  readonly revision: string | undefined;
  readonly app: string | undefined;
  readonly startWithoutStore: boolean;
  readonly accessLog: boolean;
}

/** What the gateway is given to work with. */
export interface CoreServices {
  /** The whole store, of which the gateway uses its app's part. Gateways of one process may share it. */
  readonly breaker: CircuitBreaker;
  /** What all gateways of the process may have open; `undefined` if there is no other one. */
  readonly streams: Budget | undefined;
  readonly clock: Clock;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly telemetry: Telemetry;
}

/** What is read anew whenever it is needed. */
export interface CoreSources {
  /** Reads the variables and the manifest. */
  readonly readSources: () => Promise<SnapshotSources>;
}
