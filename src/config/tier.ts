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

/** Returns the name of a variable in the environment: `REP_PUBLIC_API_URL` for the PUBLIC variable `API_URL`. */
export function environmentName(
  { name, tier }: Pick<Variable, "name" | "tier">,
): string {
  return `REP_${tier.toUpperCase()}_${name}`;
}
