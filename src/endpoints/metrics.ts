import { methodNotAllowed } from "../http/problem.ts";
import { PROMETHEUS_TYPE } from "../observe/prometheus.ts";
import type { Registry } from "../observe/registry.ts";

/** Where the metrics are served, on the health port only. */
export const METRICS_PATH = "/metrics";

const METHODS = ["GET", "HEAD"];

/** Handles `GET /metrics`: all measurements in the text format of Prometheus. */
export function handleMetrics({ method }: Request, registry: Registry): Response {
  if (!METHODS.includes(method)) throw methodNotAllowed(method, METHODS);
  const headers = { "content-type": PROMETHEUS_TYPE, "cache-control": "no-store" };
  return new Response(method === "HEAD" ? null : registry.format(), { headers });
}
