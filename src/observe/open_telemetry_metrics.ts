import type * as api from "npm:@opentelemetry/api@1.10.0";
import {
  BUCKETS,
  type Instrument,
  INSTRUMENT_NAMES,
  type InstrumentName,
  INSTRUMENTS,
} from "./instruments.ts";
import { type GaugeValue, labelPairs, type MetricsSink } from "./metrics.ts";

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
      this.#create(name, INSTRUMENTS[name], meter);
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

  #create(
    name: string,
    { type, help: description }: Instrument,
    meter: MeterLike,
  ): void {
    if (type === "counter") {
      this.#counters.set(name, meter.createCounter(name, { description }));
    }
    if (type === "gauge") {
      this.#gauges.set(
        name,
        meter.createObservableGauge(name, { description }),
      );
    }
    if (type !== "histogram") return;
    const advice = { explicitBucketBoundaries: [...BUCKETS] };
    this.#histograms.set(
      name,
      meter.createHistogram(name, { description, unit: "s", advice }),
    );
  }
}

function attributesOf(name: string, label: string | undefined): api.Attributes {
  return Object.fromEntries(
    labelPairs(INSTRUMENTS[name as InstrumentName], label),
  );
}
