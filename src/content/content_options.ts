import type { Log } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Clock } from "../values/clock.ts";

/** What the directory and the upstream need, as the options of the gateway name it. */
export interface ContentOptions {
  staticDir: string | undefined;
  /** How many bytes of files are kept in memory. */
  staticCacheBytes: number;
  /** Globs of the files in the directory that never change. */
  immutable: readonly string[];
  /** Returns the paths of files and directories that are never served from the directory. */
  neverServed: () => Promise<readonly string[]>;
  upstream: URL | undefined;
  /** Removed from the path of each request. */
  basePath: string;
  /** Whether the upstream gets the host that the client requests. Not with WebSockets: Deno does not let it be set. */
  preserveHost: boolean;
  upstreamTimeoutMs: number;
  /** The maximum number of files and upstream responses that are being sent. */
  maxTransfers: number;
  /** Whether WebSockets to the upstream are rejected. */
  rejectWebsockets: boolean;
  clock: Clock;
  log: Log;
  metrics: Metrics;
}
