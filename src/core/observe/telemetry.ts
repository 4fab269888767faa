import { type Log, logThrough } from "./log.ts";
import { type MetricsSink, noMetrics } from "./metrics.ts";

/** What a span of a call to another server contains from its start. */
export interface ClientSpanStart {
  /** What is done, such as `GET`: the same text for as many calls as possible. */
  readonly name: string;
  /** By their names in the semantic conventions of OpenTelemetry. */
  readonly attributes: Readonly<Record<string, string | number>>;
}

/** A span of a call to another server. */
export interface ClientSpan {
  /** Records the status of the response; from 400 on, the call has failed. */
  setHttpStatus(status: number): void;
}

/** The identifiers of a span, by their names in log lines. */
export interface SpanIds {
  /** The trace: 32 hexadecimal digits. */
  readonly trace_id: string;
  /** The span in it: 16 hexadecimal digits. */
  readonly span_id: string;
}

/** Where a gateway exports its measurements and its spans, such as OpenTelemetry. */
export interface Telemetry {
  /** Receives every measurement. */
  readonly metrics: MetricsSink;
  /** Names the span of the current request by its route. */
  nameSpan(method: string, route: string): void;
  /** Returns the identifiers of the current span; `undefined` if there is none, as outside of a request. */
  spanIds(): SpanIds | undefined;
  /**
   * Runs a call in a span of its own, below the current one. Without a current span, it only runs the call.
   *
   * @param start Returns what the span contains from its start; called only if there is one.
   */
  inClientSpan<T>(
    start: () => ClientSpanStart,
    call: (span: ClientSpan) => Promise<T>,
  ): Promise<T>;
  /**
   * Makes the current span the parent of the spans of the receiver. Without a current span, the headers stay unchanged.
   */
  injectContext(headers: Headers): void;
}

/** A span that records nothing. */
export const noSpan: ClientSpan = { setHttpStatus() {} };

/** Telemetry that exports nothing. */
export const noTelemetry: Telemetry = {
  metrics: noMetrics,
  nameSpan() {},
  spanIds: () => undefined,
  inClientSpan: (_start, call) => call(noSpan),
  injectContext() {},
};

/** The methods that spans and series may name (OpenTelemetry semantic conventions for HTTP). */
const KNOWN_METHODS: ReadonlySet<string> = new Set([
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
]);

/** Returns a method for the name of a span: `HTTP` for one that a client has made up. */
export function spanMethod(method: string): string {
  return KNOWN_METHODS.has(method) ? method : "HTTP";
}

/** Returns a method for an attribute: `_OTHER` for one that a client has made up. */
export function methodAttribute(method: string): string {
  return KNOWN_METHODS.has(method) ? method : "_OTHER";
}

/** Returns a log whose lines carry the identifiers of the span in which they are written. */
export function logWithSpanIds(log: Log, telemetry: Telemetry): Log {
  if (telemetry === noTelemetry) return log;
  return logThrough((level, event, fields) =>
    log[level](event, { ...fields, ...telemetry.spanIds() })
  );
}
