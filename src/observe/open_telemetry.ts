import type * as api from "npm:@opentelemetry/api@1.10.0";
import { importPackage } from "../values/runtime.ts";
import type { Telemetry } from "./metrics.ts";
import { OpenTelemetryMetrics } from "./open_telemetry_metrics.ts";

/** Where `@opentelemetry/api` looks for its implementation. Deno sets it if `OTEL_DENO` is `true`. */
const IMPLEMENTATION = Symbol.for("opentelemetry.js.api.1");

const API: string = "npm:@opentelemetry/api@1.10.0";

/** Any other method is `HTTP` in the name of a span (OpenTelemetry semantic conventions for HTTP spans). */
const KNOWN_METHODS = [
  "CONNECT",
  "DELETE",
  "GET",
  "HEAD",
  "OPTIONS",
  "PATCH",
  "POST",
  "PUT",
  "QUERY",
  "TRACE",
];

/**
 * Returns telemetry that exports through OpenTelemetry, configured by the `OTEL_…` variables; `undefined` unless
 * `OTEL_DENO` is `true`.
 *
 * @throws {TypeError} If npm:@opentelemetry/api can neither be found in the cache nor be downloaded.
 */
export async function openTelemetry(): Promise<Telemetry | undefined> {
  if (!Object.hasOwn(globalThis, IMPLEMENTATION)) return undefined;
  const { metrics, trace } = await importPackage<typeof api>(API);
  return {
    metrics: new OpenTelemetryMetrics(metrics.getMeter("rep")),
    nameSpan(method, route) {
      const span = trace.getActiveSpan();
      const knownMethod = KNOWN_METHODS.includes(method) ? method : "HTTP";
      span?.updateName(`${knownMethod} ${route}`);
      span?.setAttribute("http.route", route);
    },
  };
}
