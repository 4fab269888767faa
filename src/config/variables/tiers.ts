/** Who may read the value of a variable (endpoint specification, What the service does). */
export type Tier = "public" | "sensitive" | "server";

/** All tiers, from the most to the least exposed. */
export const TIERS: readonly Tier[] = ["public", "sensitive", "server"];

/** One configuration variable. */
export interface Variable {
  /** The name without the prefix of the tier, such as `API_URL`. */
  readonly name: string;
  readonly tier: Tier;
  readonly value: string;
}

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string>>;

/** The prefix of all names that are read at all. */
const REP_PREFIX = "REP_";
/** The prefix of options, of which `environmentWarnings()` of the command checks the rest. */
export const OPTION_PREFIX = "REP_GATEWAY_";
/** Matches a name in the environment: the tier, and the name without the prefix. */
export const TIER_PREFIX = /^REP_(PUBLIC|SENSITIVE|SERVER)_(.*)$/s;

/** Returns the name of a variable in the environment: `REP_PUBLIC_API_URL` for the PUBLIC variable `API_URL`. */
export function environmentName(
  { name, tier }: Pick<Variable, "name" | "tier">,
): string {
  return `REP_${tier.toUpperCase()}_${name}`;
}

/** Returns whether a name in the environment begins with `REP_`. */
export function isRepName(environmentName: string): boolean {
  return environmentName.startsWith(REP_PREFIX);
}

/** Returns whether a name in the environment has the prefix of a tier. */
export function hasTier(environmentName: string): boolean {
  return TIER_PREFIX.test(environmentName);
}

/** What to do if all variables of a source or of a tier are to be removed, for messages. */
export const HOW_TO_EMPTY = "only a restart removes them all";

/**
 * Returns whether a source that had variables has none any more. It is more likely broken than meant: written only in
 * part, mounted without its files, or without the prefixes of its names.
 */
export function isEmptied(before: Environment, after: Environment): boolean {
  const hadAny = Object.keys(before).some(hasTier);
  return hadAny && !Object.keys(after).some(hasTier);
}

/**
 * The maximum size of a PUBLIC value, in bytes of UTF-8. The event log stores each value for clients that reconnect,
 * and a Deno KV value holds 64 KiB, including the name and the encoding.
 */
export const MAX_PUBLIC_BYTES = 64_000;
