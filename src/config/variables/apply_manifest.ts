import type { Declaration, Manifest } from "./manifest.ts";
import { formatValue, hasSecret } from "./quote.ts";
import { environmentName, type Tier, type Variable } from "./tiers.ts";
import {
  compilePatterns,
  loadPatternLibrary,
  type Pattern,
  type PatternLibrary,
  typeIssue,
} from "./value_rules.ts";

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

/** Options of {@linkcode applyManifest}. */
export interface ApplyOptions {
  /** The tiers whose required variables have to be set. */
  readonly requiredTiers: readonly Tier[];
  /** Loads what evaluates patterns, if the manifest has any, instead of {@linkcode loadPatternLibrary}. */
  readonly loadPatternLibrary: (() => Promise<PatternLibrary>) | undefined;
}

/**
 * Validates variables against a manifest and adds its defaults (endpoint specification, Health report, rule 1). The
 * result has the issues of the manifest itself as well.
 */
export async function applyManifest(
  variables: readonly Variable[],
  manifest: Manifest,
  options: ApplyOptions,
): Promise<AppliedManifest> {
  const load = options.loadPatternLibrary ?? loadPatternLibrary;
  const issues = [...manifest.issues];
  const report = (issue: string) => issues.push(issue);
  const patterns = await compilePatterns(manifest, load, report);
  const given = new Map(variables.map((variable) => [variable.name, variable]));
  const all = [...variables];
  const deprecated: Deprecation[] = [];
  for (const [name, declaration] of manifest.variables) {
    const { tier, required, default: value } = declaration;
    const pattern = patterns.get(name);
    const variable = given.get(name);
    if (variable !== undefined) {
      const subject = environmentName(variable);
      issues.push(
        ...variable.tier === tier
          ? valueIssues(subject, variable, declaration, pattern)
          : [tierIssue(subject, name, tier, manifest)],
      );
      if (declaration.deprecated) {
        deprecated.push({ name, message: declaration.deprecatedMessage });
      }
    } else if (value !== undefined) {
      const injected = { name, tier, value };
      const subject = `the default of ${environmentName(injected)}`;
      issues.push(...valueIssues(subject, injected, declaration, pattern));
      all.push(injected);
    } else if (required && options.requiredTiers.includes(tier)) {
      const key = environmentName({ name, tier });
      issues.push(
        `Cannot find ${key}: ${manifest.name} requires it, but it is not set`,
      );
    }
  }
  return { variables: all, issues, deprecated };
}

function tierIssue(
  subject: string,
  name: string,
  tier: Tier,
  manifest: Manifest,
): string {
  const declared = environmentName({ name, tier });
  return `Cannot use ${subject}: ${manifest.name} declares it as ${declared}`;
}

/** @param subject What the value is, for a message. */
function valueIssues(
  subject: string,
  { tier, value }: Variable,
  declaration: Declaration,
  pattern: Pattern | undefined,
): string[] {
  const expectations = [
    typeIssue(value, declaration),
    pattern && patternIssue(value, declaration, pattern),
  ];
  const got = tier === "public"
    ? formatValue(value)
    : "a value that is not shown";
  return expectations.filter((expected) => expected !== undefined)
    .map((expected) =>
      `Cannot use ${subject}: expected ${expected}, got ${got}`
    );
}

/** Describes a value that matches the pattern, if this one does not, or is too long to be compared. */
function patternIssue(
  value: string,
  { tier, pattern: source = "" }: Declaration,
  pattern: Pattern,
): string | undefined {
  const isShown = tier === "public" && !hasSecret(source);
  const shown = isShown ? source : "the pattern in the manifest";
  if (value.length > pattern.maxLength) {
    return `at most ${pattern.maxLength} characters for ${shown}, or smaller counts in its braces`;
  }
  return pattern.matches(value) ? undefined : `a value that matches ${shown}`;
}
