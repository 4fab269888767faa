import { STREAM_REJECTIONS } from "../../core/changes/stream_rejections.ts";
import { RELOAD_OUTCOMES } from "../../core/config/configuration.ts";
import { UPSTREAM_FAILURES } from "../../core/http/transfers.ts";
import { type Endpoint, READ_METHODS } from "../../core/http/routes.ts";
import type { Addon } from "../../core/addon.ts";
import type { LabelValues, Metrics } from "../../core/observe/metrics.ts";
import { observeProcess } from "./process_metrics.ts";
import { PROMETHEUS_TYPE, type Registry } from "./registry.ts";
import { STORE_OPERATIONS } from "../../core/store/circuit_breaker.ts";
import {
  CLIENT_REJECTIONS,
  SESSION_KEY_REJECTIONS,
} from "../../core/endpoints/session_key.ts";

/** The values of all labels that are known from the start. */
export const LABEL_VALUES: LabelValues = {
  "http.server.request.duration": [], // known once there are requests
  "rep.streams.rejected": Object.keys(STREAM_REJECTIONS),
  "rep.session_keys.rejected": SESSION_KEY_REJECTIONS,
  "rep.session_keys.rejected_clients": CLIENT_REJECTIONS,
  "rep.config.reloads": RELOAD_OUTCOMES,
  "rep.store.errors": STORE_OPERATIONS,
  "rep.store.duration": STORE_OPERATIONS,
  "rep.upstream.errors": UPSTREAM_FAILURES,
};

/** What the measurements are kept in, and what they are about. */
interface MetricsOptions {
  readonly registry: Registry;
  /** Also exported, unlike the registry alone. */
  readonly metrics: Metrics;
  readonly version: string;
  readonly droppedLines: () => number | undefined;
}

/**
 * Returns the add-on that serves `GET /metrics`, on the port that stays internal: all measurements in the text format of
 * Prometheus. It also measures the process.
 */
export function metricsAddon(
  { registry, metrics, version, droppedLines }: MetricsOptions,
): Addon {
  return () => {
    const runtime = globalThis.navigator?.userAgent ?? "unknown";
    const buildInfo = new Map([[`${version} ${runtime}`, 1]]);
    metrics.observe("rep.build.info", () => buildInfo);
    metrics.observe("rep.log.dropped", droppedLines);
    observeProcess(metrics);
    const endpoint: Endpoint = {
      methods: READ_METHODS,
      handler({ method }) {
        const body = method === "HEAD" ? null : registry.format();
        const headers = {
          "content-type": PROMETHEUS_TYPE,
          "cache-control": "no-store",
        };
        return new Response(body, { headers });
      },
    };
    return { internalRoutes: { "/metrics": endpoint } };
  };
}
