/** Since when there is each problem, by its type, in milliseconds since the Unix epoch; `undefined` if there is none. */
export type Problems = Readonly<Record<string, number | undefined>>;
