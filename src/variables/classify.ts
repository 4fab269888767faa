import { environmentName, type Tier, type Variable } from "./tier.ts";

/** Names and values as an environment holds them. */
export type Environment = Readonly<Record<string, string>>;

/** What an environment holds for us, and what is wrong with it. */
export interface Classified {
  readonly variables: readonly Variable[];
  /** One sentence for each fault; values are never in them. */
  readonly issues: readonly string[];
}

const PREFIX = /^REP_(PUBLIC|SENSITIVE|SERVER)_(.*)$/s;

/**
 * Sorts an environment's variables into tiers by prefix alone, and strips the prefix (REP-RFC-0001 §3.2). What has no
 * prefix of ours is not even looked at.
 */
export function classify(environment: Environment): Classified {
  const variables = Object.entries(environment).flatMap(([name, value]) => toVariable(name, value));
  return { variables, issues: [...namelessFaults(variables), ...collisionFaults(variables)] };
}

function toVariable(environmentName: string, value: string): Variable[] {
  const [, prefix, name] = PREFIX.exec(environmentName) ?? [];
  if (prefix === undefined || name === undefined) return [];
  return [{ name, tier: prefix.toLowerCase() as Tier, value }];
}

function namelessFaults(variables: readonly Variable[]): string[] {
  return variables
    .filter(({ name }) => name === "")
    .map((variable) => `Cannot use ${environmentName(variable)}: expected a name after the prefix`);
}

/** REP-RFC-0001 §3.2 rule 4: a name belongs to one tier. */
function collisionFaults(variables: readonly Variable[]): string[] {
  const byName = Map.groupBy(variables, ({ name }) => name);
  return [...byName.values()]
    .filter((group) => group.length > 1)
    .map((group) => {
      const names = group.map(environmentName).sort().join(" and ");
      return `Cannot tell ${names} apart: expected a name to be in one tier only`;
    });
}
