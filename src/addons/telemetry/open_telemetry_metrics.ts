import type * as api from "npm:@opentelemetry/api@1.10.0";
import {
  BUCKETS,
  type Instrument,
  INSTRUMENT_NAMES,
  type InstrumentName,
  INSTRUMENTS,
  labelPairs,
  type MetricsSink,
  type ObservedValue,
} from "../../core/observe/metrics.ts";

/**
 * Passes measurements on to a `Meter`. It has a file of its own, so that the declarations of the npm package do not
 * mention it: they would need the types of `@opentelemetry/api`, which few projects install.
 */
export class OpenTelemetryMetrics implements MetricsSink {
  readonly #counters = new Map<string, api.Counter>();
  readonly #observables = new Map<string, api.Observable>();
  readonly #histograms = new Map<string, api.Histogram>();

  constructor(meter: api.Meter) {
    for (const name of INSTRUMENT_NAMES) {
      const instrument: Instrument = INSTRUMENTS[name];
      if (instrument.isPrometheusOnly) continue;
      const { type, help: description, unit = "" } = instrument;
      const options = { description, unit };
      if (type === "counter") {
        this.#counters.set(name, meter.createCounter(name, options));
      } else if (type === "gauge") {
        this.#observables.set(name, meter.createObservableGauge(name, options));
      } else if (type === "observable_counter") {
        const counter = meter.createObservableCounter(name, options);
        this.#observables.set(name, counter);
      } else {
        const advice = { explicitBucketBoundaries: [...BUCKETS] };
        const histogram = meter.createHistogram(name, { ...options, advice });
        this.#histograms.set(name, histogram);
      }
    }
  }

  count(name: string, amount: number, label?: string): void {
    this.#counters.get(name)?.add(amount, attributesOf(name, label));
  }

  record(name: string, seconds: number, label?: string): void {
    this.#histograms.get(name)?.record(seconds, attributesOf(name, label));
  }

  observe(name: string, read: () => ObservedValue): void {
    this.#observables.get(name)?.addCallback((result) => {
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
