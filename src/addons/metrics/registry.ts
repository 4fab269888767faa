import {
  BUCKETS,
  type Instrument,
  INSTRUMENT_NAMES,
  type InstrumentName,
  INSTRUMENTS,
  labelPairs,
  type LabelValues,
  type MetricsSink,
  type ObservedValue,
} from "../../core/observe/metrics.ts";
import { escapeLines } from "../../core/values/visible_text.ts";

/** The media type of the text format of Prometheus. */
export const PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** The values of a series' labels; `undefined` without labels. */
type Label = string | undefined;

/** One line of the text format. */
interface Sample {
  readonly label: Label;
  readonly value: number;
  /** Appended to the name of the instrument. */
  readonly suffix?: string;
  /** The upper bound of a bucket. */
  readonly le?: string;
}

/** Keeps the measurements of a process in memory, for `GET /metrics` and the status page. */
export class Registry implements MetricsSink {
  readonly #counters = new Map<string, Map<Label, number>>();
  readonly #observed = new Map<string, () => ObservedValue>();
  readonly #histograms = new Map<string, Map<Label, Distribution>>();

  constructor(labelValues: LabelValues) {
    for (const name of INSTRUMENT_NAMES) {
      const { type }: Instrument = INSTRUMENTS[name];
      const labels = labelValues[name] ?? [undefined];
      if (type === "counter") {
        this.#counters.set(name, new Map(labels.map((label) => [label, 0])));
      }
      if (type === "histogram") {
        const none = labels.map((label) =>
          [label, new Distribution()] as const
        );
        this.#histograms.set(name, new Map(none));
      }
    }
  }

  count(name: string, amount: number, label?: string): void {
    const totals = this.#counters.get(name);
    totals?.set(label, (totals.get(label) ?? 0) + amount);
  }

  /** Ends a series of a counter. */
  forget(name: string, label: string): void {
    this.#counters.get(name)?.delete(label);
  }

  record(name: string, seconds: number, label?: string): void {
    const distributions = this.#histograms.get(name);
    const distribution = distributions?.get(label) ?? new Distribution();
    distributions?.set(label, distribution);
    distribution.record(seconds);
  }

  observe(name: string, read: () => ObservedValue): void {
    this.#observed.set(name, read);
  }

  /** Returns all measurements in the text format of Prometheus. Series without a value are left out. */
  format(): string {
    const lines: string[] = [];
    for (const name of INSTRUMENT_NAMES) {
      const instrument: Instrument = INSTRUMENTS[name];
      const samples = this.#samples(name);
      if (samples.length === 0) continue;
      const fullName = prometheusName(name, instrument);
      lines.push(`# HELP ${fullName} ${instrument.help}`);
      const type = instrument.type.replace("observable_", "");
      lines.push(`# TYPE ${fullName} ${type}`);
      for (const sample of samples) {
        lines.push(formatSample(fullName, instrument, sample));
      }
    }
    return `${lines.join("\n")}\n`;
  }

  /** Returns the values of an instrument by label. */
  values(name: InstrumentName): Record<string, number> {
    const samples = this.#samples(name);
    return Object.fromEntries(
      samples.map(({ label = "", value }) => [label, value]),
    );
  }

  #samples(name: string): Sample[] {
    const distributions = [...this.#histograms.get(name) ?? []];
    if (distributions.length > 0) {
      return distributions.flatMap(([label, one]) => one.samples(label));
    }
    const value = this.#counters.get(name) ?? this.#observed.get(name)?.();
    if (typeof value === "number") return [{ label: undefined, value }];
    return Array.from(value ?? [], ([label, value]) => ({ label, value }));
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
    const samples: Sample[] = [];
    let value = 0;
    for (const [index, count] of this.#counts.entries()) {
      value += count;
      const le = String(BUCKETS[index] ?? "+Inf");
      samples.push({ label, suffix: "_bucket", le, value });
    }
    samples.push({ label, suffix: "_sum", value: this.#sum });
    samples.push({ label, suffix: "_count", value });
    return samples;
  }
}

/** The units in the names of Prometheus. */
const UNIT_SUFFIXES = { s: "_seconds", By: "_bytes" };

/**
 * Returns the Prometheus name of an instrument: with underscores, its unit, and `_total` for a counter (OpenTelemetry
 * specification, "Prometheus and OpenMetrics Compatibility").
 */
export function prometheusName(
  name: string,
  { type, unit, prometheusName }: Omit<Instrument, "help">,
): string {
  if (prometheusName !== undefined) return prometheusName;
  const unitSuffix = unit ? UNIT_SUFFIXES[unit] : "";
  const suffix = type === "counter" ? "_total" : "";
  return name.replaceAll(".", "_") + unitSuffix + suffix;
}

function formatSample(
  name: string,
  instrument: Instrument,
  { label, value, suffix = "", le }: Sample,
): string {
  const pairs = labelPairs(instrument, label);
  if (le !== undefined) pairs.push(["le", le]);
  const labels = pairs.map(([name, value]) => `${name}="${escape(value)}"`);
  const braced = labels.length === 0 ? "" : `{${labels.join()}}`;
  return `${name}${suffix}${braced} ${value}`;
}

/** Label values may contain any character, but people read them in a terminal. */
function escape(label: string): string {
  return escapeLines(label)
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("\n", "\\n");
}
