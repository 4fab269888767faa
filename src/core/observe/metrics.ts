import type { Clock } from "../values/clock.ts";

/** What an instrument measures. Its key in {@linkcode INSTRUMENTS} is its OpenTelemetry name. */
export interface Instrument {
  /**
   * A counter only rises; a gauge and an observable counter are read when they are exported; a histogram records
   * durations.
   */
  readonly type: "counter" | "gauge" | "observable_counter" | "histogram";
  readonly help: string;
  /** As OpenTelemetry writes it: seconds, bytes. */
  readonly unit?: "s" | "By";
  /**
   * The names of its labels, separated by spaces. Their values are separated in the same way. The last ones may be missing:
   * `site`, where a process has one gateway only.
   */
  readonly labels?: string;
  /** Its name for Prometheus, where that does not follow from the key. */
  readonly prometheusName?: string;
  /** Whether it is not exported through OpenTelemetry, where the runtime does that itself. */
  readonly isPrometheusOnly?: boolean;
}

/** All instruments of the gateway. `docs/operations.md` has a row for each. */
export const INSTRUMENTS = {
  "rep.build.info": {
    type: "gauge",
    help: "1; its labels say what is running",
    labels: "version runtime",
  },
  // Named as in Deno's own export (OpenTelemetry semantic conventions for HTTP metrics).
  "http.server.request.duration": {
    type: "histogram",
    unit: "s",
    help: "Time until the headers of the response to a request",
    labels: "http_route http_request_method http_response_status_code",
    isPrometheusOnly: true,
  },
  "rep.streams.open": { type: "gauge", help: "Open streams", labels: "site" },
  "rep.streams.opened": { type: "counter", help: "Streams that were opened" },
  "rep.streams.stalled": {
    type: "counter",
    help: "Streams that ended because their clients did not read",
  },
  "rep.streams.rejected": {
    type: "counter",
    help: "Streams that were told to reconnect later",
    labels: "reason",
  },
  "rep.streams.polled": {
    type: "counter",
    help: "Polls: streams that ended once their clients had everything",
  },
  "rep.events.published": {
    type: "counter",
    help: "Changes that this process appended to the event log",
    labels: "site",
  },
  "rep.events.delivered": {
    type: "counter",
    help: "Events sent to streams when they were published",
  },
  "rep.events.replayed": {
    type: "counter",
    help: "Events sent to streams that were behind",
  },
  "rep.session_keys.issued": {
    type: "counter",
    help: "Session keys that were issued",
  },
  "rep.session_keys.rejected": {
    type: "counter",
    help: "Rejected requests for keys",
    labels: "reason",
  },
  "rep.session_keys.rejected_clients": {
    type: "counter",
    help: "Clients whose requests for keys are rejected",
    labels: "reason",
  },
  "rep.config.reloads": {
    type: "counter",
    help: "Reloads of the variables",
    labels: "outcome",
  },
  "rep.config.last_reload_success": {
    type: "gauge",
    help: "Whether the last reload succeeded, or the start if there was none",
    labels: "site",
  },
  "rep.config.last_reload_timestamp": {
    type: "gauge",
    unit: "s",
    help: "The time of the last reload, or of the start if there was none",
  },
  "rep.config.secrets": {
    type: "gauge",
    help: "1; its labels are digests of the SENSITIVE and the SERVER values",
    labels: "sensitive server site",
  },
  "rep.tls.not_after_timestamp": {
    type: "gauge",
    unit: "s",
    help: "The end of the TLS certificate",
  },
  "rep.health.problem": {
    type: "gauge",
    help: "Whether the health report has this problem",
    labels: "type site",
  },
  "rep.store.up": {
    type: "gauge",
    help: "Whether the last read and the last write of the store succeeded",
  },
  "rep.store.errors": {
    type: "counter",
    help: "Store operations that failed or timed out",
    labels: "operation",
  },
  "rep.store.lost_events": {
    type: "counter",
    help: "Times that the store came back without events that were delivered",
  },
  "rep.store.duration": {
    type: "histogram",
    unit: "s",
    help: "Duration of the operations of the store",
    labels: "operation",
  },
  "rep.rollout.active": {
    type: "gauge",
    help: "Whether the active configuration is its own",
    labels: "configuration revision",
  },
  "rep.upstream.errors": {
    type: "counter",
    help: "Proxied requests that failed in the upstream",
    labels: "reason",
  },
  "rep.upstream.duration": {
    type: "histogram",
    unit: "s",
    help: "Time until the headers of the upstream's response",
  },
  "rep.pages.served": {
    type: "counter",
    help: "Pages that were served with the configuration, 304 included",
  },
  "rep.log.dropped": {
    type: "observable_counter",
    help: "Lines of the log that were dropped because nobody read them",
    prometheusName: "rep_log_dropped_total",
  },
  "rep.builds.files": {
    type: "gauge",
    help: "Kept files of all builds",
    labels: "site",
  },
  "rep.builds.size": {
    type: "gauge",
    unit: "By",
    help: "Size of the kept files of all builds",
    labels: "site",
  },
  "rep.builds.hits": {
    type: "counter",
    help: "Kept files that were served, which would have been 404",
    labels: "site",
  },
  "process.cpu.time": {
    type: "observable_counter",
    unit: "s",
    help: "CPU time of the process, user and system",
    prometheusName: "process_cpu_seconds_total",
  },
  "process.memory.usage": {
    type: "gauge",
    unit: "By",
    help: "Resident memory of the process",
    prometheusName: "process_resident_memory_bytes",
  },
  "process.start_time": { // OpenTelemetry has the start of each counter
    type: "gauge",
    unit: "s",
    help: "The time at which the process started",
    isPrometheusOnly: true,
  },
} as const satisfies Record<string, Instrument>;

/** The OpenTelemetry name of an instrument. */
export type InstrumentName = keyof typeof INSTRUMENTS;

/** The values of labels, by instrument. They come from the code that counts, and make each series exist from the start. */
export type LabelValues = Readonly<
  Partial<Record<InstrumentName, readonly string[]>>
>;

/** The names of all instruments. */
export const INSTRUMENT_NAMES = Object.keys(INSTRUMENTS) as InstrumentName[];

/** Upper bounds of a histogram's buckets, in seconds: from a local read to the slowest timeout. */
export const BUCKETS: readonly number[] = [
  ...[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5],
  ...[1, 2.5, 5, 10, 30],
];

/** What is observed: a value, or values by label; `undefined` if there is none. */
export type ObservedValue = number | undefined | ReadonlyMap<string, number>;

/** Receives measurements. The names and labels are those of `docs/operations.md`. */
export interface MetricsSink {
  /** Adds an amount to a counter. */
  count(name: string, amount: number, label?: string): void;
  /** Records a duration in a histogram. */
  record(name: string, seconds: number, label?: string): void;
  /** Registers the function that reads a gauge or an observable counter. */
  observe(name: string, read: () => ObservedValue): void;
}

/** A {@linkcode MetricsSink} for the instruments of the gateway only. */
export interface Metrics extends MetricsSink {
  count(name: InstrumentName, amount: number, label?: string): void;
  record(name: InstrumentName, seconds: number, label?: string): void;
  observe(name: InstrumentName, read: () => ObservedValue): void;
}

/** Metrics that discard everything. */
export const noMetrics: Metrics = { count() {}, record() {}, observe() {} };

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

/** Returns the labels of a series, each with its value. That of the last one may contain spaces: the name of a directory. */
export function labelPairs(
  { labels }: Instrument,
  values: string | undefined,
): [name: string, value: string][] {
  if (labels === undefined || values === undefined) return [];
  const names = labels.split(" ");
  const parts = values.split(" ");
  const last = parts.splice(names.length - 1);
  if (last.length > 0) parts.push(last.join(" "));
  return parts.map((value, index) => [names[index] ?? "", value]);
}

/** Returns the seconds since a time of the monotonic clock. */
export function secondsSince(
  startedAt: number,
  clock: Clock,
): number {
  return (clock.monotonic() - startedAt) / 1_000;
}
