import type { Declaration } from "./declaration.ts";
import { PATTERN_TIMEOUT_MS, type PatternCheck, type PatternResult } from "./evaluate_patterns.ts";
import { formatValue } from "./format_value.ts";
import type { Manifest } from "./manifest.ts";
import { environmentName, type Tier, type Variable } from "./tier.ts";
import { typeIssue } from "./variable_type.ts";

/** The result of {@linkcode applyManifest}. */
export interface AppliedManifest {
  /** The variables, with the defaults of those that are not set. */
  readonly variables: readonly Variable[];
  /** One sentence per issue. Only values of PUBLIC variables are named. */
  readonly issues: readonly string[];
  /** The deprecated variables that are set. */
  readonly deprecated: readonly Deprecation[];
  /** The values that have to match a pattern; what comes of it is passed to {@linkcode patternIssue}. */
  readonly patterns: readonly DeclaredPattern[];
}

/** A value that has to match a pattern of the manifest. */
export interface DeclaredPattern extends PatternCheck {
  readonly tier: Tier;
  /** What the value is, for a message. */
  readonly what: string;
}

/** A variable that is set although it is deprecated. */
export interface Deprecation {
  readonly name: string;
  /** The manifest's message about it. */
  readonly message: string | undefined;
}

/**
 * Validates variables against a manifest and adds its defaults (endpoint specification, Health report, rule 1).
 * Patterns are not evaluated, since that needs a deadline.
 */
export function applyManifest(variables: readonly Variable[], manifest: Manifest): AppliedManifest {
  const set = new Map(variables.map((variable) => [variable.name, variable]));
  const all = [...variables];
  const issues: string[] = [];
  const deprecated: Deprecation[] = [];
  const patterns: DeclaredPattern[] = [];
  for (const [name, declaration] of manifest.variables) {
    const variable = set.get(name) ?? defaultVariable(name, declaration);
    if (!variable) {
      if (declaration.required) issues.push(missingIssue(name, declaration));
      continue;
    }
    if (!set.has(name)) all.push(variable);
    else if (declaration.deprecated) deprecated.push({ name, message: declaration.deprecatedMessage });
    const { tier, value } = variable;
    const fullName = environmentName(variable);
    const what = set.has(name) ? fullName : `the default of ${fullName}`;
    issues.push(...valueIssues(variable, declaration, what));
    if (declaration.pattern && tier === declaration.tier) {
      patterns.push({ pattern: declaration.pattern, value, tier, what });
    }
  }
  return { variables: all, issues, deprecated, patterns };
}

function defaultVariable(name: string, { tier, default: value }: Declaration): Variable | undefined {
  return value === undefined ? undefined : { name, tier, value };
}

function missingIssue(name: string, { tier }: Declaration): string {
  return `Cannot find ${environmentName({ name, tier })}: the manifest requires it, but it is not set`;
}

function valueIssues(variable: Variable, declaration: Declaration, subject: string): string[] {
  if (variable.tier !== declaration.tier) {
    const declared = environmentName({ name: variable.name, tier: declaration.tier });
    return [`Cannot use ${subject}: the manifest declares it as ${declared}`];
  }
  const expected = typeIssue(variable.value, declaration);
  return expected === undefined ? [] : [`Cannot use ${subject}: expected ${expected}, ${got(variable)}`];
}

function got({ tier, value }: Pick<Variable, "tier" | "value">): string {
  return tier === "public" ? `got ${formatValue(value)}` : "got a value that is not shown";
}

/** Returns what is wrong with a value that has to match a pattern, or with the pattern. */
export function patternIssue(declared: DeclaredPattern, result: PatternResult): string | undefined {
  const { tier, pattern, what } = declared;
  const source = pattern.source.slice("^(?:".length, -")$".length); // in JavaScript's syntax
  const shown = tier === "public" ? source : "the pattern in the manifest";
  const cannot = `Cannot use ${what}: expected`;
  switch (result) {
    case "mismatch":
      return `${cannot} a value that matches ${shown}, ${got(declared)}`;
    case "timeout":
      return `${cannot} a pattern that takes at most ${PATTERN_TIMEOUT_MS} ms, got ${shown}`;
    case "failed":
      return `${cannot} a pattern that can be evaluated, got ${shown}`;
  }
  return undefined;
}
