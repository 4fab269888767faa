const UNITS = { GiB: 1_073_741_824, MiB: 1_048_576, KiB: 1_024 } as const;

/**
 * Parses a size: `64MiB`, `512KiB`, `1GiB`, or a number of bytes.
 *
 * @returns Bytes, or `undefined` if the text is not a size.
 */
export function parseByteSize(text: string): number | undefined {
  const [, amount, unit] = /^(\d{1,12})(KiB|MiB|GiB)?$/.exec(text) ?? [];
  return amount === undefined
    ? undefined
    : Number(amount) * (unit ? UNITS[unit as keyof typeof UNITS] : 1);
}

/** Formats bytes in the largest unit in which they are a whole number: 67108864 is `64MiB`. */
export function formatByteSize(bytes: number): string {
  const [unit, size] =
    Object.entries(UNITS).find(([, size]) =>
      bytes >= size && bytes % size === 0
    ) ?? ["", 1];
  return `${bytes / size}${unit}`;
}
