import type { Declaration } from "./declaration.ts";
import { formatValue, hasSecret } from "./format_value.ts";
import { type Manifest, parseManifest } from "./manifest.ts";
import {
  compilePatterns,
  loadPatternLibrary,
  type Pattern,
  type PatternLibrary,
} from "./patterns.ts";
import { environmentName, type Tier, type Variable } from "./tier.ts";
import { typeIssue } from "./variable_type.ts";

/** The result of {@linkcode applyManifest}. */
export interface AppliedManifest {
  readonly manifest: Manifest;
  /** The variables, with the defaults of those that are not set. */
  readonly variables: readonly Variable[];
  /** One sentence per issue. Only values of PUBLIC variables are named. */
  readonly issues: readonly string[];
  /** The deprecated variables that are set. */
  readonly deprecated: readonly Deprecation[];
}

/** Options of {@linkcode applyManifest}. */
interface ApplyOptions {
  /** The tiers whose required variables have to be set. */
  readonly requiredTiers: readonly Tier[];
  /** Loads what evaluates patterns, if the manifest has any, instead of {@linkcode loadPatternLibrary}. */
  readonly loadPatternLibrary: (() => Promise<PatternLibrary>) | undefined;
}

/** A manifest that has not been parsed, and how it is applied. */
export interface ManifestInput extends ApplyOptions {
  /** The manifest, as YAML text. */
  readonly manifest: string | undefined;
  /** The path of the manifest, for messages. */
  readonly manifestPath: string | undefined;
}

/** A variable that is set although it is deprecated. */
export interface Deprecation {
  readonly name: string;
  /** The manifest's message about it. */
  readonly message: string | undefined;
}

/** Parses a manifest and applies it to variables. The result has all issues of both. */
export async function applyManifestText(
  variables: readonly Variable[],
  { manifest: text, manifestPath: path, ...options }: ManifestInput & {
    readonly manifest: string;
  },
): Promise<AppliedManifest> {
  const { manifest, issues } = parseManifest(text, {
    path,
    readSettings: undefined,
  });
  const applied = await applyManifest(variables, manifest, options);
  return { ...applied, issues: [...issues, ...applied.issues] };
}

/** Validates variables against a manifest and adds its defaults (endpoint specification, Health report, rule 1). */
export async function applyManifest(
  variables: readonly Variable[],
  manifest: Manifest,
  { requiredTiers, loadPatternLibrary: load = loadPatternLibrary }:
    ApplyOptions,
): Promise<AppliedManifest> {
  const compiled = await compilePatterns(manifest, load);
  const set = new Map(variables.map((variable) => [variable.name, variable]));
  const all = [...variables];
  const issues = [...compiled.issues];
  const deprecated: Deprecation[] = [];
  for (const [name, declaration] of manifest.variables) {
    const variable = set.get(name) ?? defaultVariable(name, declaration);
    if (!variable) {
      const isMissing = declaration.required &&
        requiredTiers.includes(declaration.tier);
      if (isMissing) {
        issues.push(missingIssue({ name, tier: declaration.tier }, manifest));
      }
      continue;
    }
    if (!set.has(name)) all.push(variable);
    else if (declaration.deprecated) {
      deprecated.push({ name, message: declaration.deprecatedMessage });
    }
    const subject = set.has(name)
      ? environmentName(variable)
      : `the default of ${environmentName(variable)}`;
    issues.push(
      ...valueIssues(variable, declaration, {
        subject,
        manifest,
        pattern: compiled.patterns.get(name),
      }),
    );
  }
  return { manifest, variables: all, issues, deprecated };
}

function defaultVariable(
  name: string,
  { tier, default: value }: Declaration,
): Variable | undefined {
  return value === undefined ? undefined : { name, tier, value };
}

function missingIssue(
  variable: Pick<Variable, "name" | "tier">,
  manifest: Manifest,
): string {
  return `Cannot find ${
    environmentName(variable)
  }: ${manifest.name} requires it, but it is not set`;
}

/** What {@linkcode valueIssues} needs besides the variable and its declaration. */
interface ValueContext {
  /** What the value is, for a message. */
  readonly subject: string;
  readonly manifest: Manifest;
  readonly pattern: Pattern | undefined;
}

function valueIssues(
  variable: Variable,
  declaration: Declaration,
  context: ValueContext,
): string[] {
  const { subject, manifest, pattern } = context;
  if (variable.tier !== declaration.tier) {
    const declared = environmentName({
      name: variable.name,
      tier: declaration.tier,
    });
    return [
      `Cannot use ${subject}: ${manifest.name} declares it as ${declared}`,
    ];
  }
  const expected = [
    typeIssue(variable.value, declaration),
    pattern && patternIssue(variable, pattern, declaration.pattern ?? ""),
  ];
  return expected.filter((it) => it !== undefined).map((it) =>
    `Cannot use ${subject}: expected ${it}, ${got(variable)}`
  );
}

/** Describes a value that matches the pattern, if this one does not, or is too long to be compared. */
function patternIssue(
  { tier, value }: Variable,
  pattern: Pattern,
  source: string,
): string | undefined {
  const isShown = tier === "public" && !hasSecret(source);
  const shown = isShown ? source : "the pattern in the manifest";
  if (value.length > pattern.maxLength) {
    return `at most ${pattern.maxLength} characters for ${shown}, or smaller counts in its braces`;
  }
  return pattern.matches(value) ? undefined : `a value that matches ${shown}`;
}

function got({ tier, value }: Pick<Variable, "tier" | "value">): string {
  return tier === "public"
    ? `got ${formatValue(value)}`
    : "got a value that is not shown";
}
