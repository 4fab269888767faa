import {
  type Instrument,
  INSTRUMENT_NAMES,
  type InstrumentName,
  INSTRUMENTS,
  type Metrics,
  type ObservedValue,
} from "../../core/observe/metrics.ts";

/** What is measured for each site. Everything else is measured for the process, or a thousand sites had as many series. */
const OF_EACH_SITE = new Set(INSTRUMENT_NAMES.filter(hasSite));

function hasSite(name: InstrumentName): boolean {
  const { labels = "" }: Instrument = INSTRUMENTS[name];
  return labels.split(" ").includes("site");
}

type Read = () => ObservedValue;

/** The measurements of all sites, which go to those of the process. */
export class SiteMetrics {
  readonly #metrics: Metrics;
  /** What is read when a gauge is exported, by gauge and site. */
  readonly #gauges = new Map<InstrumentName, Map<string, Read>>();

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  /** Returns where the gateway of a site measures; with an empty name, that of the process. */
  of(site: string): Metrics {
    const metrics = this.#metrics;
    return {
      count(name, amount, label) {
        const isOfSite = site !== "" && OF_EACH_SITE.has(name);
        metrics.count(name, amount, isOfSite ? site : label);
      },
      record: (name, seconds, label) => metrics.record(name, seconds, label),
      observe: (name, read) => {
        if (OF_EACH_SITE.has(name)) this.#gaugesOf(name).set(site, read);
        else if (site === "") metrics.observe(name, read);
      },
    };
  }

  /** Ends the gauges of a site. */
  forget(site: string): void {
    for (const reads of this.#gauges.values()) reads.delete(site);
  }

  #gaugesOf(name: InstrumentName): Map<string, Read> {
    let reads = this.#gauges.get(name);
    if (reads === undefined) {
      reads = new Map();
      this.#gauges.set(name, reads);
      this.#metrics.observe(name, () => readAll(this.#gauges.get(name)));
    }
    return reads;
  }
}

/**
 * Returns the values of all sites, with the site as the last label. Of several values of a site, it leaves out zeros; those
 * of the process exist from the start.
 */
function readAll(reads: ReadonlyMap<string, Read> = new Map()): ObservedValue {
  const values = new Map<string, number>();
  for (const [site, read] of reads) {
    const value = read();
    if (typeof value === "number") values.set(site, value);
    for (const [label, one] of value instanceof Map ? value : []) {
      if (site === "") values.set(label, one);
      else if (one !== 0) values.set(`${label} ${site}`, one);
    }
  }
  return values;
}
