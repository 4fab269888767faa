import type { Declaration } from "./declaration.ts";
import { formatValue } from "./format_value.ts";
import type { Manifest } from "./manifest.ts";
import { environmentName, type Variable } from "./tier.ts";
import { typeIssue } from "./variable_type.ts";

/** The result of {@linkcode applyManifest}. */
export interface AppliedManifest {
  /** The variables, with the defaults of those that are not set. */
  readonly variables: readonly Variable[];
  /** One sentence per issue. Only values of PUBLIC variables are named. */
  readonly issues: readonly string[];
  /** The deprecated variables that are set. */
  readonly deprecated: readonly Deprecation[];
}

/** A variable that is set although it is deprecated. */
export interface Deprecation {
  readonly name: string;
  /** The manifest's message about it. */
  readonly message: string | undefined;
}

/** Validates variables against a manifest and adds its defaults (spec, Health report, rule 1). */
export function applyManifest(variables: readonly Variable[], manifest: Manifest): AppliedManifest {
  const set = new Map(variables.map((variable) => [variable.name, variable]));
  const all = [...variables];
  const issues: string[] = [];
  const deprecated: Deprecation[] = [];
  for (const [name, declaration] of manifest.variables) {
    const variable = set.get(name) ?? defaultVariable(name, declaration);
    if (!variable) {
      if (declaration.required) issues.push(missingIssue(name, declaration));
      continue;
    }
    if (!set.has(name)) all.push(variable);
    else if (declaration.deprecated) deprecated.push({ name, message: declaration.deprecatedMessage });
    const fullName = environmentName(variable);
    issues.push(...valueIssues(variable, declaration, set.has(name) ? fullName : `the default of ${fullName}`));
  }
  return { variables: all, issues, deprecated };
}

function defaultVariable(name: string, { tier, default: value }: Declaration): Variable | undefined {
  return value === undefined ? undefined : { name, tier, value };
}

function missingIssue(name: string, { tier }: Declaration): string {
  return `Cannot find ${environmentName({ name, tier })}: the manifest requires it, but it is not set`;
}

function valueIssues(variable: Variable, declaration: Declaration, what: string): string[] {
  if (variable.tier !== declaration.tier) {
    const declared = environmentName({ name: variable.name, tier: declaration.tier });
    return [`Cannot use ${what}: the manifest declares it as ${declared}`];
  }
  const got = variable.tier === "public" ? `got ${formatValue(variable.value)}` : "got a value that is not shown";
  return [typeIssue(variable.value, declaration), patternIssue(variable.value, declaration)]
    .filter((expected) => expected !== undefined)
    .map((expected) => `Cannot use ${what}: expected ${expected}, ${got}`);
}

function patternIssue(value: string, { tier, pattern }: Declaration): string | undefined {
  if (pattern === undefined || pattern.test(value)) return undefined;
  const source = pattern.source.slice("^(?:".length, -")$".length); // in JavaScript's syntax
  return tier === "public" ? `a value that matches ${source}` : "a value that matches the pattern in the manifest";
}
