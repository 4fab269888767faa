import {
  BUCKETS,
  type Instrument,
  INSTRUMENT_NAMES,
  INSTRUMENTS,
  type LabelValues,
} from "./instruments.ts";
import type { GaugeValue, MetricsSink } from "./metrics.ts";
import { formatFamily, type Sample } from "./prometheus.ts";

/** A series without a label has the key `undefined`. */
type Label = string | undefined;

/** How many minutes the plots of the status page have. */
const MINUTES = 60;

/** Keeps the measurements of a process in memory, for `GET /metrics`. */
export class Registry implements MetricsSink {
  readonly #counters = new Map<string, Map<Label, number>>();
  readonly #gauges = new Map<string, () => GaugeValue>();
  readonly #histograms = new Map<string, Map<Label, Distribution>>();
  /** The samples of the last minutes. */
  #minutes: readonly ReadonlyMap<string, number>[] = [];

  constructor(labelValues: LabelValues) {
    for (const name of INSTRUMENT_NAMES) {
      const { type }: Instrument = INSTRUMENTS[name];
      const labels = labelValues[name] ?? [undefined];
      if (type === "counter") {
        this.#counters.set(name, new Map(labels.map((label) => [label, 0])));
      }
      if (type === "histogram") {
        this.#histograms.set(
          name,
          new Map(labels.map((label) => [label, new Distribution()])),
        );
      }
    }
  }

  count(name: string, amount: number, label?: string): void {
    const totals = this.#counters.get(name);
    totals?.set(label, (totals.get(label) ?? 0) + amount);
  }

  record(name: string, seconds: number, label?: string): void {
    this.#histograms.get(name)?.get(label)?.record(seconds);
  }

  observe(name: string, read: () => GaugeValue): void {
    this.#gauges.set(name, read);
  }

  /** Returns all measurements in the text format of Prometheus. A gauge that nothing observes is left out. */
  format(): string {
    return INSTRUMENT_NAMES.map((name) =>
      formatFamily(name, INSTRUMENTS[name], this.#samples(name))
    ).join("");
  }

  /** Keeps what {@linkcode history} needs; called once a minute. */
  sample(): void {
    this.#minutes = [...this.#minutes, this.#readTotals()].slice(-MINUTES);
  }

  /** Returns the values of a gauge, or the increase of a counter, in each of the last minutes with this one, by label. */
  history(name: string): Record<string, readonly number[]> {
    const minutes = [...this.#minutes, this.#readTotals()];
    const series = this.#samples(name).map(({ label = "" }) => {
      const values = minutes.map((totals) => totals.get(name + label) ?? 0);
      const increases = values.map((value, minute) =>
        value - (values[minute - 1] ?? 0)
      );
      return [
        label,
        (this.#gauges.has(name) ? values : increases).slice(-MINUTES),
      ];
    });
    return Object.fromEntries(series);
  }

  #readTotals(): ReadonlyMap<string, number> {
    const names = INSTRUMENT_NAMES.filter((name) =>
      (INSTRUMENTS[name] as Instrument).plot
    );
    return new Map(
      names.flatMap((name) =>
        this.#samples(name).map((
          { label = "", value },
        ) => [name + label, value])
      ),
    );
  }

  #samples(name: string): Sample[] {
    const distributions = this.#histograms.get(name);
    if (distributions) {
      return [...distributions].flatMap(([label, distribution]) =>
        distribution.samples(label)
      );
    }
    const value = this.#counters.get(name) ?? this.#gauges.get(name)?.() ??
      new Map<Label, number>();
    return typeof value === "number"
      ? [{ value }]
      : [...value].map(([label, value]) => ({ label, value }));
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
      return {
        label,
        suffix: "_bucket",
        le: String(BUCKETS[index] ?? "+Inf"),
        value: count,
      };
    });
    return [...buckets, { label, suffix: "_sum", value: this.#sum }, {
      label,
      suffix: "_count",
      value: count,
    }];
  }
}
