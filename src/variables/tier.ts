/** How far a variable's value may travel (spec, What the service does). */
export type Tier = "public" | "sensitive" | "server";

/** The three tiers, from the page's source to the process's memory. */
export const TIERS: readonly Tier[] = ["public", "sensitive", "server"];

/** One configuration variable. */
export interface Variable {
  /** Its name without the tier's prefix. */
  readonly name: string;
  readonly tier: Tier;
  readonly value: string;
}

/** The name under which the environment holds a variable: `REP_PUBLIC_API_URL` for the PUBLIC `API_URL`. */
export function environmentName({ name, tier }: Pick<Variable, "name" | "tier">): string {
  return `REP_${tier.toUpperCase()}_${name}`;
}
