import type { Clock } from "../values/clock.ts";
import type {
  CounterName,
  GaugeName,
  HistogramName,
  Instrument,
} from "./instruments.ts";

/** The value of a gauge, or its values by label; `undefined` if there is none. */
export type GaugeValue = number | undefined | ReadonlyMap<string, number>;

/** Receives measurements. The names and labels are those of `docs/operations.md`. */
export interface MetricsSink {
  /** Adds an amount to a counter. */
  count(name: string, amount: number, label?: string): void;
  /** Records a duration in a histogram. */
  record(name: string, seconds: number, label?: string): void;
  /** Registers the function that reads a gauge. */
  observe(name: string, read: () => GaugeValue): void;
}

/** A {@linkcode MetricsSink} for the instruments of the gateway only. */
export interface Metrics extends MetricsSink {
  /** Adds an amount to a counter. */
  count(name: CounterName, amount: number, label?: string): void;
  /** Records a duration in a histogram. */
  record(name: HistogramName, seconds: number, label?: string): void;
  /** Registers the function that reads a gauge. */
  observe(name: GaugeName, read: () => GaugeValue): void;
}

/** Metrics that discard everything. */
export const noMetrics: Metrics = { count() {}, record() {}, observe() {} };

/** Where a gateway exports its measurements and its routes, such as OpenTelemetry. */
export interface Telemetry {
  /** Receives every measurement. */
  readonly metrics: MetricsSink;
  /** Names the span of the current request by its route. */
  nameSpan(method: string, route: string): void;
}

/** Telemetry that exports nothing. */
export const noTelemetry: Telemetry = { metrics: noMetrics, nameSpan() {} };

/** Returns metrics that pass every measurement on to others. */
export function combineMetrics(...sinks: readonly MetricsSink[]): Metrics {
  return {
    count: (name, amount, label) =>
      sinks.forEach((sink) => sink.count(name, amount, label)),
    record: (name, seconds, label) =>
      sinks.forEach((sink) => sink.record(name, seconds, label)),
    observe: (name, read) => sinks.forEach((sink) => sink.observe(name, read)),
  };
}

/** Returns the labels of a series, each with its value. */
export function labelPairs(
  { labels }: Instrument,
  values: string | undefined,
): [name: string, value: string][] {
  if (labels === undefined || values === undefined) return [];
  const names = labels.split(" ");
  return values.split(" ").map((value, index) => [names[index] ?? "", value]);
}

/** Returns the seconds since a time of the monotonic clock. */
export function secondsSince(
  startedAt: number,
  clock: Pick<Clock, "monotonic">,
): number {
  return (clock.monotonic() - startedAt) / 1_000;
}
