import type { Registry } from "../../addons/metrics/registry.ts";
import {
  type Instrument,
  INSTRUMENT_NAMES,
  type InstrumentName,
  INSTRUMENTS,
  type Metrics,
  type ObservedValue,
} from "../../core/observe/metrics.ts";

/** What is measured for each site. Everything else is measured for the process, or a thousand sites had as many series. */
const OF_EACH_SITE = new Set(INSTRUMENT_NAMES.filter((name) => {
  const { labels = "" }: Instrument = INSTRUMENTS[name];
  return labels.split(" ").includes("site");
}));

/** What the gateway of a site measures. */
export interface Measured {
  readonly metrics: Metrics;
  /** Its gauges, which are read when they are exported. */
  readonly gauges: Map<InstrumentName, () => ObservedValue>;
}

/** The measurements of all sites, which go to those of the process. */
export class SiteMetrics {
  readonly #registry: Pick<Registry, "forget">;
  readonly #metrics: Metrics;
  /** The gauges by site; those of the process have an empty name. */
  readonly #shown = new Map<string, Measured["gauges"]>();

  constructor(registry: Pick<Registry, "forget">, metrics: Metrics) {
    this.#registry = registry;
    this.#metrics = metrics;
    for (const name of OF_EACH_SITE) {
      if (INSTRUMENTS[name].type !== "gauge") continue;
      metrics.observe(name, () => this.#read(name));
    }
  }

  /** Returns where the gateway of a site measures. Its gauges are exported once they are {@linkcode show}n. */
  of(site: string): Measured {
    const metrics = this.#metrics;
    const gauges: Measured["gauges"] = new Map();
    return {
      gauges,
      metrics: {
        count(name, amount, label) {
          metrics.count(name, amount, OF_EACH_SITE.has(name) ? site : label);
        },
        record: (name, seconds, label) => metrics.record(name, seconds, label),
        observe: (name, read) => void gauges.set(name, read),
      },
    };
  }

  /** Returns where the gateway of the process measures. */
  ofProcess(): Metrics {
    const { gauges } = this.of("");
    this.#shown.set("", gauges);
    const { count, record } = this.#metrics;
    return {
      count,
      record,
      observe: (name, read) => {
        if (OF_EACH_SITE.has(name)) gauges.set(name, read);
        else this.#metrics.observe(name, read);
      },
    };
  }

  /** Exports the gauges of a site instead of those that were exported before. */
  show(site: string, gauges: Measured["gauges"]): void {
    this.#shown.set(site, gauges);
  }

  /** Ends the series of a site. */
  forget(site: string): void {
    this.#shown.delete(site);
    for (const name of OF_EACH_SITE) this.#registry.forget(name, site);
  }

  /**
   * Returns the values of a gauge in all sites, with the site as the last label. Of several values of a site, it leaves out
   * zeros; those of the process exist from the start.
   */
  #read(name: InstrumentName): ObservedValue {
    const values = new Map<string, number>();
    for (const [site, gauges] of this.#shown) {
      const value = gauges.get(name)?.();
      if (typeof value === "number") values.set(site, value);
      for (const [label, one] of value instanceof Map ? value : []) {
        if (site === "") values.set(label, one);
        else if (one !== 0) values.set(`${label} ${site}`, one);
      }
    }
    return values;
  }
}
