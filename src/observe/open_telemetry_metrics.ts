import type * as api from "npm:@opentelemetry/api@1.10.0";
import {
  BUCKETS,
  type GaugeValue,
  type Instrument,
  INSTRUMENT_NAMES,
  type InstrumentName,
  INSTRUMENTS,
  labelPairs,
  type MetricsSink,
} from "./metrics.ts";

/** The parts of a `Meter` that are used. */
type MeterLike = Pick<
  api.Meter,
  "createCounter" | "createHistogram" | "createObservableGauge"
>;

/**
 * Passes measurements on to a `Meter`. In a file of its own, which the declarations of the npm package do not mention:
 * they would need the types of `@opentelemetry/api`, and few projects have it.
 */
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
