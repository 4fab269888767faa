/** One figure of a benchmark, over all rounds. */
export interface Figure {
  readonly name: string;
  readonly unit: string;
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

/** The results of a benchmark. */
export interface Report {
  readonly title: string;
  readonly figures: readonly Figure[];
}

/** Summarizes the values of all rounds. */
export function figure(
  name: string,
  unit: string,
  rounds: readonly number[],
): Figure {
  return {
    name,
    unit,
    median: quantile(rounds, 0.5),
    least: Math.min(...rounds),
    most: Math.max(...rounds),
  };
}

/** Returns the value below which this share of all values lies. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[
    Math.min(sorted.length - 1, Math.floor(share * sorted.length))
  ] ?? NaN;
}

/** Formats a report: the median of each figure and, where rounds differ, the least and the most. */
export function formatReport({ title, figures }: Report): string {
  const width = Math.max(...figures.map(({ name }) => name.length));
  return [
    title,
    ...figures.map((it) => `  ${it.name.padEnd(width)}  ${formatFigure(it)}`),
    "",
  ].join("\n");
}

/** Formats the median of a figure and, where rounds differ, the least and the most. */
export function formatFigure(
  { median, least, most, unit }: Omit<Figure, "name">,
): string {
  const value = `${formatNumber(median)} ${unit}`.trim();
  return least === most
    ? value
    : `${value} (${formatNumber(least)} to ${formatNumber(most)})`;
}

/** Formats a number; such figures are not more precise than three digits. */
export function formatNumber(value: number): string {
  return value.toLocaleString("en", {
    maximumSignificantDigits: Math.abs(value) < 1_000 ? 3 : 4,
  });
}

/** Prints a report. */
export function printReport(report: Report): void {
  // deno-lint-ignore no-console -- the report is the program's output
  console.log(formatReport(report));
}
