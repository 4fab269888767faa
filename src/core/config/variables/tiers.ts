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

/** The prefix of options of the command. */
export const OPTION_PREFIX = "REP_GATEWAY_";
/** Matches a name in the environment, and captures the tier and the name without the prefix. */
export const TIER_PREFIX = /^REP_(PUBLIC|SENSITIVE|SERVER)_(.*)$/s;

/** Returns the name of a variable in the environment: `REP_PUBLIC_API_URL` for the PUBLIC variable `API_URL`. */
export function environmentName(
  { name, tier }: Pick<Variable, "name" | "tier">,
): string {
  return `REP_${tier.toUpperCase()}_${name}`;
}

/** Returns whether the gateway reads a name in the environment. */
export function isRepName(environmentName: string): boolean {
  return environmentName.startsWith("REP_");
}

/** Returns whether a name in the environment has the prefix of a tier. */
export function hasTier(environmentName: string): boolean {
  return TIER_PREFIX.test(environmentName);
}

/** What {@linkcode parsePublicName} accepts, for messages. */
export const EXPECTED_PUBLIC_NAMES =
  "names of PUBLIC variables, such as STRIPE_KEY";

/**
 * Returns the name of a PUBLIC variable that is given with or without its prefix; `undefined` for a name that cannot be
 * that of a PUBLIC variable.
 */
export function parsePublicName(text: string): string | undefined {
  const name = text.replace(/^REP_PUBLIC_/, "");
  return name === "" || isRepName(name) ? undefined : name;
}

/** Returns the `REP_…` names that have no tier, and are no options: their variables are ignored. */
export function namesWithoutTier(environment: Environment): string[] {
  return Object.keys(environment).filter((name) =>
    isRepName(name) && !name.startsWith(OPTION_PREFIX) && !hasTier(name)
  );
}

/** What messages say about a source that has lost all its variables. */
export const EMPTIED = "got none; to remove them all on purpose, restart";

/**
 * Returns whether a source lost all its variables. That is more likely a mistake than an intention: the source was
 * written only in part, mounted without its files, or its names lost their prefixes.
 */
export function isEmptied(before: Environment, after: Environment): boolean {
  const hadAny = Object.keys(before).some(hasTier);
  return hadAny && !Object.keys(after).some(hasTier);
}

/**
 * The maximum size of a PUBLIC value, in bytes of UTF-8. The event log stores each value for clients that reconnect,
 * and a value in Deno KV has at most 64 KiB, including the name of the variable and the encoding.
 */
export const MAX_PUBLIC_BYTES = 64_000;
