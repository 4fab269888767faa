import type { Instrument } from "./instruments.ts";
import { labelPairs } from "./metrics.ts";

/** The media type of the text format. */
export const PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** One line of the text format. */
export interface Sample {
  readonly value: number;
  /** The values of the instrument's labels. */
  readonly label?: string | undefined;
  /** Appended to the name of the instrument. */
  readonly suffix?: string;
  /** The upper bound of a bucket. */
  readonly le?: string;
}

/**
 * Returns the Prometheus name of an instrument: with underscores, its unit, and `_total` for a counter (OpenTelemetry
 * specification, "Prometheus and OpenMetrics Compatibility").
 */
export function prometheusName(
  name: string,
  { type }: Pick<Instrument, "type">,
): string {
  const suffix = { counter: "_total", gauge: "", histogram: "_seconds" }[type];
  return name.replaceAll(".", "_") + suffix;
}

/** Formats an instrument and its samples in the text format of Prometheus, version 0.0.4; nothing without samples. */
export function formatFamily(
  name: string,
  instrument: Instrument,
  samples: readonly Sample[],
): string {
  if (samples.length === 0) return "";
  const full = prometheusName(name, instrument);
  const lines = samples.map((sample) => formatSample(full, instrument, sample));
  return [
    `# HELP ${full} ${instrument.help}`,
    `# TYPE ${full} ${instrument.type}`,
    ...lines,
    "",
  ].join("\n");
}

function formatSample(
  name: string,
  instrument: Instrument,
  { value, label, suffix = "", le }: Sample,
): string {
  const labels = [
    ...labelPairs(instrument, label).map(([label, value]) =>
      `${label}="${escapeLabel(value)}"`
    ),
    ...(le === undefined ? [] : [`le="${le}"`]),
  ];
  return `${name}${suffix}${
    labels.length === 0 ? "" : `{${labels.join(",")}}`
  } ${value}`;
}

function escapeLabel(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll(
    "\n",
    "\\n",
  );
}
