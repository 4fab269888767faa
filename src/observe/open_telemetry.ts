import type * as api from "npm:@opentelemetry/api@1.10.0";
import { importPackage } from "../values/runtime.ts";
import {
  BUCKETS,
  type Instrument,
  INSTRUMENT_NAMES,
  type InstrumentName,
  INSTRUMENTS,
} from "./instruments.ts";
import {
  type GaugeValue,
  labelPairs,
  type MetricsSink,
  type Telemetry,
} from "./metrics.ts";

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

/** The parts of a `Meter` that are used. */
type MeterLike = Pick<
  api.Meter,
  "createCounter" | "createHistogram" | "createObservableGauge"
>;

/** Passes measurements on to a `Meter`. */
export class OpenTelemetryMetrics implements MetricsSink {
  readonly #counters = new Map<string, api.Counter>();
  readonly #gauges = new Map<string, api.ObservableGauge>();
  readonly #histograms = new Map<string, api.Histogram>();

  constructor(meter: MeterLike) {
    for (const name of INSTRUMENT_NAMES) {
      const { type, help: description }: Instrument = INSTRUMENTS[name];
      if (type === "counter") {
        const counter = meter.createCounter(name, { description });
        this.#counters.set(name, counter);
      } else if (type === "gauge") {
        const gauge = meter.createObservableGauge(name, { description });
        this.#gauges.set(name, gauge);
      } else {
        const advice = { explicitBucketBoundaries: [...BUCKETS] };
        const options = { description, unit: "s", advice };
        this.#histograms.set(name, meter.createHistogram(name, options));
      }
    }
  }

  count(name: string, amount: number, label?: string): void {
    this.#counters.get(name)?.add(amount, attributesOf(name, label));
  }

  record(name: string, seconds: number, label?: string): void {
    this.#histograms.get(name)?.record(seconds, attributesOf(name, label));
  }

  observe(name: string, read: () => GaugeValue): void {
    this.#gauges.get(name)?.addCallback((result) => {
      const value = read();
      if (typeof value === "number") return result.observe(value);
      for (const [label, one] of value ?? []) {
        result.observe(one, attributesOf(name, label));
      }
    });
  }
}

function attributesOf(name: string, label: string | undefined): api.Attributes {
  const instrument = INSTRUMENTS[name as InstrumentName];
  return Object.fromEntries(labelPairs(instrument, label));
}
