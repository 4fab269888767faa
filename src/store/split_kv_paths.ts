/** Splits a list of values of `--kv` at its commas, except those between the hosts of a `postgres://` URL. */
export function splitKvPaths(list: string): string[] {
  return list.match(/postgres(?:ql)?:\/\/[^/]*\/[^,]*|[^,]+/g) ?? [];
}
