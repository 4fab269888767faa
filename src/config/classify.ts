import { describeKind } from "./format_value.ts";
import { environmentName, type Tier, type Variable } from "./tier.ts";

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string>>;

/** The result of {@linkcode classify}. */
interface Classified {
  readonly variables: readonly Variable[];
  /** One sentence per issue. Values are never named. */
  readonly issues: readonly string[];
}

const PREFIX = /^REP_(PUBLIC|SENSITIVE|SERVER)_(.*)$/s;

/**
 * Sorts the variables of an environment into tiers by their prefix, and strips the prefix (REP-RFC-0001 §3.2).
 * Variables without a tier's prefix are ignored.
 */
export function classify(environment: Environment): Classified {
  const variables = Object.entries(environment).flatMap(([name, value]) =>
    toVariable(name, value)
  );
  const issues = [
    ...typeIssues(environment),
    ...emptyNameIssues(variables),
    ...collisionIssues(variables),
  ];
  return { variables, issues };
}

/** The types of a module that is not written in TypeScript are known at run time only. */
function typeIssues(environment: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(environment)
    .filter(([name, value]) => hasTier(name) && typeof value !== "string")
    .map(([name, value]) =>
      `Cannot use ${name}: expected a string, got ${describeKind(value)}`
    );
}

/** Returns whether a name in the environment has the prefix of a tier. */
export function hasTier(environmentName: string): boolean {
  return PREFIX.test(environmentName);
}

function toVariable(environmentName: string, value: unknown): Variable[] {
  const [, prefix, name] = PREFIX.exec(environmentName) ?? [];
  if (prefix === undefined || name === undefined || typeof value !== "string") {
    return [];
  }
  return [{ name, tier: prefix.toLowerCase() as Tier, value }];
}

function emptyNameIssues(variables: readonly Variable[]): string[] {
  return variables
    .filter(({ name }) => name === "")
    .map((variable) =>
      `Cannot use ${
        environmentName(variable)
      }: expected a name after the prefix`
    );
}

/** REP-RFC-0001 §3.2 rule 4: a name belongs to one tier. */
function collisionIssues(variables: readonly Variable[]): string[] {
  const byName = Map.groupBy(variables, ({ name }) => name);
  return [...byName.values()]
    .filter((group) => group.length > 1)
    .map((group) => {
      const names = group.map(environmentName).sort().join(" and ");
      return `Cannot use ${names}: expected a name in one tier only`;
    });
}
