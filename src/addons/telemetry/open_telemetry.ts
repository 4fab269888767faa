import type * as api from "npm:@opentelemetry/api@1.10.0";
import { importPackage } from "../../core/values/runtime.ts";
import { VERSION } from "../../version.ts";
import { OpenTelemetryMetrics } from "./open_telemetry_metrics.ts";
import {
  noSpan,
  spanMethod,
  type Telemetry,
} from "../../core/observe/telemetry.ts";

/** Where `@opentelemetry/api` looks for its implementation. Deno sets it if `OTEL_DENO` is `true`. */
const IMPLEMENTATION = Symbol.for("opentelemetry.js.api.1");

const API: string = "npm:@opentelemetry/api@1.10.0";

/** Returns whether Deno exports telemetry. */
export function isTelemetryEnabled(): boolean {
  return Object.hasOwn(globalThis, IMPLEMENTATION);
}

/**
 * Returns telemetry that exports through OpenTelemetry, configured by the `OTEL_…` variables; `undefined` unless
 * `OTEL_DENO` is `true`.
 *
 * @throws {TypeError} If npm:@opentelemetry/api can neither be found in the cache nor be downloaded.
 */
export async function openTelemetry(): Promise<Telemetry | undefined> {
  if (!isTelemetryEnabled()) return undefined;
  const { context, metrics, propagation, SpanKind, SpanStatusCode, trace } =
    await importPackage<typeof api>(API);
  const tracer = trace.getTracer("rep", VERSION);
  const failed = { code: SpanStatusCode.ERROR };
  return {
    metrics: new OpenTelemetryMetrics(metrics.getMeter("rep")),
    nameSpan(method, route) {
      const span = trace.getActiveSpan();
      span?.updateName(`${spanMethod(method)} ${route}`);
      span?.setAttribute("http.route", route);
    },
    spanIds() {
      const span = trace.getActiveSpan()?.spanContext();
      return span && { trace_id: span.traceId, span_id: span.spanId };
    },
    async inClientSpan(start, call) {
      if (trace.getActiveSpan() === undefined) return await call(noSpan);
      const { name, attributes } = start();
      const options = { kind: SpanKind.CLIENT, attributes };
      return await tracer.startActiveSpan(name, options, async (span) => {
        try {
          return await call({
            setHttpStatus(status) {
              span.setAttribute("http.response.status_code", status);
              if (status < 400) return;
              span.setAttribute("error.type", String(status));
              span.setStatus(failed);
            },
          });
        } catch (error) {
          span.setAttribute("error.type", errorType(error));
          span.setStatus(failed);
          throw error;
        } finally {
          span.end();
        }
      });
    },
    injectContext(headers) {
      propagation.inject(context.active(), headers, {
        set: (headers, name, value) => headers.set(name, value),
      });
    },
  };
}

/** Returns the code of a system's error, such as `ECONNREFUSED`, or the name of any other. */
function errorType(error: unknown): string {
  if (!(error instanceof Error)) return "_OTHER";
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : error.name;
}
