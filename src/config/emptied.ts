import { classify, type Environment, hasTier } from "./classify.ts";
import { type Tier, TIERS, type Variable } from "./tier.ts";

/** What to do if all variables of a source or of a tier are to be removed, for messages. */
export const HOW_TO_EMPTY = "only a restart removes them all";

/**
 * Returns whether a source that had variables has none any more. It is more likely broken than meant: written only in
 * part, mounted without its files, or without the prefixes of its names.
 */
export function isEmptied(before: Environment, after: Environment): boolean {
  return Object.keys(before).some(hasTier) &&
    !Object.keys(after).some(hasTier);
}

/**
 * Returns an issue for each tier that had variables and has none any more, whichever source they were from. A tier whose
 * variables all moved to other tiers was emptied on purpose: nobody has to wait for a restart to hide a secret.
 */
export function emptiedTierIssues(
  before: Environment,
  after: Environment,
): string[] {
  const [had, has] = [classify(before).variables, classify(after).variables];
  return TIERS.filter((tier) => isEmptiedTier(tier, had, has)).map((tier) =>
    `Cannot use the variables: expected names that begin with REP_${tier.toUpperCase()}_, as before, got none; ${HOW_TO_EMPTY}`
  );
}

function isEmptiedTier(
  tier: Tier,
  before: readonly Variable[],
  after: readonly Variable[],
): boolean {
  const names = new Set(after.map(({ name }) => name));
  const lost = before.filter((variable) =>
    variable.tier === tier && !names.has(variable.name)
  );
  return lost.length > 0 && !after.some((variable) => variable.tier === tier);
}
