/** The units of a size in bytes, the largest first. */
const SIZE_UNITS: readonly (readonly [unit: string, bytes: number])[] = [
  ["GiB", 1_073_741_824],
  ["MiB", 1_048_576],
  ["KiB", 1_024],
  ["", 1],
];

/** The units of a duration in milliseconds, the largest first. */
const DURATION_UNITS: readonly (readonly [unit: string, ms: number])[] = [
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
  ["ms", 1],
];

/**
 * Parses a size: `64MiB`, `512KiB`, `1GiB`, or a number of bytes.
 *
 * @returns Bytes, or `undefined` if the text is not a size.
 */
export function parseByteSize(text: string): number | undefined {
  const [, amount, unit = ""] = /^(\d{1,12})(KiB|MiB|GiB)?$/.exec(text) ?? [];
  const bytes = new Map(SIZE_UNITS).get(unit);
  if (amount === undefined || bytes === undefined) return undefined;
  return Number(amount) * bytes;
}

/** Formats bytes in the largest unit in which they are a whole number: 67108864 is `64MiB`. */
export function formatByteSize(bytes: number): string {
  for (const [unit, size] of SIZE_UNITS) {
    if (bytes >= size && bytes % size === 0) return `${bytes / size}${unit}`;
  }
  return String(bytes);
}

/**
 * Parses a duration in the format of REP and Go: `30s`, `1h30m`, `500ms`.
 *
 * @returns Milliseconds, or `undefined` if the text is not a duration.
 */
export function parseDuration(text: string): number | undefined {
  if (!/^(\d{1,9}(h|ms|m|s))+$/.test(text)) return undefined;
  const units = new Map(DURATION_UNITS);
  let sum = 0;
  for (const [, amount, unit = ""] of text.matchAll(/(\d+)(h|ms|m|s)/g)) {
    sum += Number(amount) * (units.get(unit) ?? 0);
  }
  return sum;
}

/** Formats a time in milliseconds since the Unix epoch: `2026-01-02T03:04:05.000Z`. */
export function formatTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** Formats milliseconds in the largest units that fit: 5400000 is `1h30m`. */
export function formatDuration(ms: number): string {
  let text = "";
  let rest = ms;
  for (const [unit, size] of DURATION_UNITS) {
    const amount = Math.floor(rest / size);
    if (amount > 0) text += `${amount}${unit}`;
    rest -= amount * size;
  }
  return text || "0s";
}
