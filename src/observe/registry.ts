import { BUCKETS, type Instrument, INSTRUMENT_NAMES, INSTRUMENTS, type LabelValues } from "./instruments.ts";
import type { GaugeValue, MetricsSink } from "./metrics.ts";
import { formatFamily, type Sample } from "./prometheus.ts";

/** Keeps the measurements of a process in memory, for `GET /metrics`. */
export class Registry implements MetricsSink {
  readonly #counters = new Map<string, Counter>();
  readonly #gauges = new Map<string, () => GaugeValue>();
  readonly #histograms = new Map<string, Histogram>();

  constructor(labelValues: LabelValues) {
    for (const name of INSTRUMENT_NAMES) {
      const { type }: Instrument = INSTRUMENTS[name];
      const labels = labelValues[name] ?? [undefined];
      if (type === "counter") this.#counters.set(name, new Counter(labels));
      if (type === "histogram") this.#histograms.set(name, new Histogram(labels));
    }
  }

  count(name: string, amount: number, label?: string): void {
    this.#counters.get(name)?.add(amount, label);
  }

  record(name: string, seconds: number, label?: string): void {
    this.#histograms.get(name)?.record(seconds, label);
  }

  observe(name: string, read: () => GaugeValue): void {
    this.#gauges.set(name, read);
  }

  /** Returns all measurements in the text format of Prometheus. A gauge that nothing observes is left out. */
  format(): string {
    const families = INSTRUMENT_NAMES.map((name) => {
      const instrument: Instrument = INSTRUMENTS[name];
      return formatFamily(name, instrument, this.#samples(name, instrument));
    });
    return families.join("");
  }

  #samples(name: string, instrument: Instrument): readonly Sample[] {
    if (instrument.type === "counter") return this.#counters.get(name)?.samples() ?? [];
    if (instrument.type === "histogram") return this.#histograms.get(name)?.samples() ?? [];
    const value = this.#gauges.get(name)?.();
    if (value === undefined) return [];
    return typeof value === "number" ? [{ value }] : [...value].map(([label, value]) => ({ label, value }));
  }
}

/** A series without a label has the key `undefined`. */
type Label = string | undefined;

class Counter {
  readonly #totals: Map<Label, number>;

  constructor(labels: readonly Label[]) {
    this.#totals = new Map(labels.map((label) => [label, 0]));
  }

  add(amount: number, label: Label): void {
    this.#totals.set(label, (this.#totals.get(label) ?? 0) + amount);
  }

  samples(): Sample[] {
    return [...this.#totals].map(([label, value]) => ({ label, value }));
  }
}

class Histogram {
  readonly #series: Map<Label, Distribution>;

  constructor(labels: readonly Label[]) {
    this.#series = new Map(labels.map((label) => [label, new Distribution()]));
  }

  record(seconds: number, label: Label): void {
    this.#series.get(label)?.record(seconds);
  }

  samples(): Sample[] {
    return [...this.#series].flatMap(([label, distribution]) => distribution.samples(label));
  }
}

/** The buckets of one series. */
class Distribution {
  /** The number of values in each bucket, and of those above all bounds. */
  readonly #counts = Array<number>(BUCKETS.length + 1).fill(0);
  #sum = 0;

  record(value: number): void {
    const index = BUCKETS.findIndex((bound) => value <= bound);
    const bucket = index === -1 ? BUCKETS.length : index;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
  }

  /** In the text format, each bucket contains the ones below it. */
  samples(label: Label): Sample[] {
    let count = 0;
    const buckets = this.#counts.map((value, index) => {
      count += value;
      return { label, suffix: "_bucket", le: String(BUCKETS[index] ?? "+Inf"), value: count };
    });
    return [...buckets, { label, suffix: "_sum", value: this.#sum }, { label, suffix: "_count", value: count }];
  }
}
