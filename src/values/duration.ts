const UNITS = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;

/**
 * Parses a duration in the format of REP and Go: `30s`, `1h30m`, `500ms`.
 *
 * @returns Milliseconds, or `undefined` if the text is not a duration.
 */
export function parseDuration(text: string): number | undefined {
  if (!/^(\d{1,9}(h|ms|m|s))+$/.test(text)) return undefined;
  const parts = text.matchAll(/(\d+)(h|ms|m|s)/g);
  return parts.reduce(
    (sum, [, amount, unit]) =>
      sum + Number(amount) * UNITS[unit as keyof typeof UNITS],
    0,
  );
}

/** Formats milliseconds in the largest units that fit: 5400000 is `1h30m`. */
export function formatDuration(ms: number): string {
  let rest = ms;
  const parts = Object.entries(UNITS).map(([unit, size]) => {
    const amount = Math.floor(rest / size);
    rest -= amount * size;
    return amount === 0 ? "" : `${amount}${unit}`;
  });
  return parts.join("") || "0s";
}
