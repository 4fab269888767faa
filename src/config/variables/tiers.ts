import { describeKind } from "./quote.ts";

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
const TIER_PREFIX = /^REP_(PUBLIC|SENSITIVE|SERVER)_(.*)$/s;

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

/** The result of {@linkcode classify}. */
interface Classified {
  readonly variables: readonly Variable[];
  /** One sentence per issue. Values are never named. */
  readonly issues: readonly string[];
}

/**
 * Sorts the variables of an environment into tiers by their prefix, and strips the prefix (REP-RFC-0001 §3.2).
 * Variables without a tier's prefix are ignored.
 */
export function classify(environment: Environment): Classified {
  const variables: Variable[] = [];
  const issues: string[] = [];
  // The types of a module that is not written in TypeScript are known at run time only.
  const entries: [string, unknown][] = Object.entries(environment);
  for (const [key, value] of entries) {
    const [, prefix, name] = TIER_PREFIX.exec(key) ?? [];
    if (prefix === undefined || name === undefined) continue;
    if (typeof value !== "string") {
      const got = describeKind(value);
      issues.push(`Cannot use ${key}: expected a string, got ${got}`);
      continue;
    }
    variables.push({ name, tier: prefix.toLowerCase() as Tier, value });
  }
  for (const variable of variables.filter(({ name }) => name === "")) {
    const key = environmentName(variable);
    issues.push(`Cannot use ${key}: expected a name after the prefix`);
  }
  return { variables, issues: [...issues, ...collisionIssues(variables)] };
}

/** REP-RFC-0001 §3.2 rule 4: a name belongs to one tier. */
function collisionIssues(variables: readonly Variable[]): string[] {
  const byName = Map.groupBy(variables, ({ name }) => name);
  const collisions = [...byName.values()].filter(({ length }) => length > 1);
  return collisions.map((group) => {
    const names = group.map(environmentName).sort().join(" and ");
    return `Cannot use ${names}: expected a name in one tier only`;
  });
}

/** Returns the values of a tier's variables by name. */
export function valuesOf(
  tier: Tier,
  variables: readonly Variable[],
): Map<string, string> {
  const selected = variables.filter((variable) => variable.tier === tier);
  return new Map(selected.map(({ name, value }) => [name, value]));
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
 * Returns an issue for each tier that had variables and has none any more, whichever source they were from. A tier whose
 * variables all moved to other tiers was emptied on purpose: nobody has to wait for a restart to hide a secret.
 */
export function emptiedTierIssues(
  before: Environment,
  after: Environment,
): string[] {
  const now = classify(after).variables;
  const names = new Set(now.map(({ name }) => name));
  const lost = classify(before).variables.filter(({ name }) =>
    !names.has(name)
  );
  const emptied = TIERS.filter((tier) =>
    lost.some((variable) => variable.tier === tier) &&
    !now.some((variable) => variable.tier === tier)
  );
  return emptied.map((tier) => {
    const prefix = environmentName({ name: "", tier });
    return `Cannot use the variables: expected names that begin with ${prefix}, as before, got none; ${HOW_TO_EMPTY}`;
  });
}
