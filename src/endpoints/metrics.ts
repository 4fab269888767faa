import { PROMETHEUS_TYPE } from "../observe/prometheus.ts";
import type { Registry } from "../observe/registry.ts";

/** Where the metrics are served, on the health port only. */
export const METRICS_PATH = "/metrics";

/** Handles `GET /metrics`: all measurements in the text format of Prometheus. */
export function handleMetrics({ method }: Request, registry: Registry): Response {
  const headers = { "content-type": PROMETHEUS_TYPE, "cache-control": "no-store" };
  return new Response(method === "HEAD" ? null : registry.format(), { headers });
}
