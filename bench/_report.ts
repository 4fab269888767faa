/** One figure of a benchmark, over all rounds. */
export interface Figure {
  readonly name: string;
  readonly unit: string;
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

/** What a benchmark found. */
export interface Report {
  readonly title: string;
  readonly figures: readonly Figure[];
}

/** Makes a figure of what the rounds gave. */
export function figure(name: string, unit: string, rounds: readonly number[]): Figure {
  return { name, unit, median: quantile(rounds, 0.5), least: Math.min(...rounds), most: Math.max(...rounds) };
}

/** The value below which a share of all values lies. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN;
}

/** A report as text: the median of each figure and, where rounds differ, the least and the most. */
export function reportText({ title, figures }: Report): string {
  const width = Math.max(...figures.map(({ name }) => name.length));
  return [title, ...figures.map((it) => `  ${it.name.padEnd(width)}  ${valueText(it)}`), ""].join("\n");
}

function valueText({ median, least, most, unit }: Figure): string {
  const value = `${rounded(median)} ${unit}`.trim();
  return least === most ? value : `${value}  (${rounded(least)} to ${rounded(most)})`;
}

/** Three digits are more than such figures hold. */
function rounded(value: number): string {
  return value.toLocaleString("en", { maximumSignificantDigits: Math.abs(value) < 1_000 ? 3 : 4 });
}

/** Prints a report. */
export function printReport(report: Report): void {
  // deno-lint-ignore no-console -- the report is what the program is for
  console.log(reportText(report));
}
