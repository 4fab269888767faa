import type * as re2js from "npm:re2js@2.10.0";
import { messageOf } from "../../observe/log.ts";
import { findSimilar } from "../../values/did_you_mean.ts";
import { importPackage } from "../../values/runtime.ts";
import { type Declaration, type Manifest, nameAt } from "./manifest.ts";
import {
  describeKind,
  formatKey,
  formatValue,
  formatWord,
  hasSecret,
} from "./quote.ts";
import { environmentName, hasTier, type Tier, type Variable } from "./tiers.ts";

/** The result of {@linkcode applyManifest}. */
export interface AppliedManifest {
  /** The variables that are set, and the defaults of the others. */
  readonly variables: readonly Variable[];
  /** One sentence per issue. They contain values of PUBLIC variables only. */
  readonly issues: readonly string[];
  readonly deprecated: readonly Deprecation[];
  /** The required variables that are set to nothing, as in the environment. */
  readonly empty: readonly string[];
}

/** A deprecated variable that is set. */
export interface Deprecation {
  readonly name: string;
  /** The manifest's message about it. */
  readonly message: string | undefined;
}

/** Options of {@linkcode applyManifest}. */
export interface ApplyOptions {
  /** The tiers whose required variables have to be set. */
  readonly requiredTiers: readonly Tier[];
  /** Loads the library that evaluates patterns. @default {loadPatternLibrary} */
  readonly loadPatternLibrary?: (() => Promise<PatternLibrary>) | undefined;
  /** Names in the environment that the manifest does not declare, and that may be misspelled. @default {[]} */
  readonly otherNames?: readonly string[];
}

/**
 * Validates variables against a manifest and adds its defaults (endpoint specification, Health report, rule 1), except
 * those of required variables. The issues include those of the manifest itself.
 */
export async function applyManifest(
  variables: readonly Variable[],
  manifest: Manifest,
  options: ApplyOptions,
): Promise<AppliedManifest> {
  const { requiredTiers, otherNames = [] } = options;
  const load = options.loadPatternLibrary ?? loadPatternLibrary;
  const issues = [...manifest.issues];
  const report = (issue: string) => issues.push(issue);
  const patterns = await compilePatterns(manifest, load, report);
  const given = new Map(variables.map((variable) => [variable.name, variable]));
  const all = variables.map((variable) =>
    normalize(variable, manifest.variables.get(variable.name))
  );
  const deprecated: Deprecation[] = [];
  const empty: string[] = [];
  for (const [name, declaration] of manifest.variables) {
    const { tier, required, default: value } = declaration;
    const pattern = patterns.get(name);
    const byDefault = value === undefined ? undefined : { name, tier, value };
    if (byDefault !== undefined) { // valid even while it is not used (REP-RFC-0001 §6.3)
      const place = nameAt(`variables.${name}.default`, manifest);
      const subject = `the default of ${
        environmentName(byDefault)
      } in ${place}`;
      issues.push(...valueIssues(subject, byDefault, declaration, pattern));
    }
    const variable = given.get(name);
    if (variable !== undefined) {
      const subject = environmentName(variable);
      issues.push(
        ...variable.tier === tier
          ? valueIssues(subject, variable, declaration, pattern)
          : [tierIssue(subject, { name, tier }, manifest)],
      );
      if (declaration.deprecated) {
        deprecated.push({ name, message: declaration.deprecatedMessage });
      }
      if (required && variable.value === "") empty.push(subject);
    } else if (required) {
      if (!requiredTiers.includes(tier)) continue;
      issues.push(missingIssue({ name, tier }, manifest, otherNames));
    } else if (byDefault !== undefined) {
      all.push(normalize(byDefault, declaration));
    }
  }
  return { variables: all, issues, deprecated, empty };
}

/** A variable without its value. */
type VariableName = Pick<Variable, "name" | "tier">;

/** Writes booleans in lower case, in which the generated types declare them. Any case is valid (REP-RFC-0001 §6.2). */
function normalize(
  variable: Variable,
  declaration: Declaration | undefined,
): Variable {
  if (declaration?.type !== "boolean") return variable;
  const { name, tier, value } = variable;
  return { name, tier, value: value.toLowerCase() };
}

function missingIssue(
  variable: VariableName,
  manifest: Manifest,
  otherNames: readonly string[],
): string {
  const { name } = variable;
  const key = environmentName(variable);
  const isWithoutTier = (other: string) =>
    !hasTier(other) && other.endsWith(`_${name}`);
  const similar = otherNames.find(isWithoutTier) ??
    findSimilar(key, otherNames);
  const hint = similar === undefined ? "" : `; is it misspelled as ${similar}?`;
  const place = nameAt(`variables.${name}`, manifest);
  return `Cannot find ${key}: ${place} requires it, but it is not set${hint}`;
}

function tierIssue(
  subject: string,
  declared: VariableName,
  manifest: Manifest,
): string {
  const place = nameAt(`variables.${declared.name}`, manifest);
  const name = environmentName(declared);
  return `Cannot use ${subject}: ${place} declares it as ${name}`;
}

/** @param subject What the value is, for a message. */
function valueIssues(
  subject: string,
  { tier, value }: Variable,
  declaration: Declaration,
  pattern: Pattern | undefined,
): string[] {
  const got = describeValue(value, tier);
  return [
    typeIssue(value, declaration),
    pattern && patternIssue(value, declaration, pattern),
  ]
    .filter((expected) => expected !== undefined)
    .map((expected) =>
      `Cannot use ${subject}: expected ${expected}, got ${got}`
    );
}

function describeValue(value: string, tier: Tier): string {
  if (tier === "public") return formatValue(value);
  return value === "" ? "an empty value" : "a value that is not shown";
}

/** Describes a valid value if this one does not match the pattern, or is too long to be matched. */
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

/**
 * Validates a value against the type of its variable.
 *
 * @returns A description of a valid value, such as "a number", if this one is invalid; `undefined` if it is valid. The
 * allowed values of an enum are in it only for a PUBLIC variable.
 */
export function typeIssue(
  value: string,
  { tier, type, values = [] }: Pick<Declaration, "tier" | "type" | "values">,
): string | undefined {
  switch (type) {
    case "string":
    case "csv":
      return undefined;
    case "url":
      return isUrl(value) ? undefined : describeUrl(value);
    case "number":
      return isNumber(value) ? undefined : "a number";
    case "boolean":
      return /^(true|false)$/i.test(value) ? undefined : "true or false";
    case "json":
      return isJson(value) ? undefined : "JSON";
    case "enum":
      if (values.includes(value)) return undefined;
      if (tier !== "public") return "one of the values in the manifest";
      return `one of ${values.map(formatWord).join(", ")}`;
  }
}

// RFC 3986 §2 and §3, with an authority whose host is not empty. `URL` checks the numbers in hosts.
const CHARACTER = "(?:[\\w.~!$&'()*+,;=-]|%[0-9A-F]{2})";
const AUTHORITY =
  `(?:(?:${CHARACTER}|:)*@)?(?:\\[[0-9A-F:.]+\\]|${CHARACTER}+)(?::\\d*)?`;
const PATH = `(?:/(?:${CHARACTER}|[:@/])*)?`;
const QUERY_OR_FRAGMENT = `(?:${CHARACTER}|[:@/?])*`;
const URI = new RegExp(
  `^[A-Z][A-Z0-9+.-]*://${AUTHORITY}${PATH}(?:\\?${QUERY_OR_FRAGMENT})?(?:#${QUERY_OR_FRAGMENT})?$`,
  "i",
);

/** A link to such a URL runs or shows what the URL contains. */
const UNSAFE_SCHEME = /^(?:javascript|data):/i;

function isUrl(value: string): boolean {
  return URI.test(value) && !UNSAFE_SCHEME.test(value) && URL.canParse(value);
}

/** Mentions a placeholder that was not replaced, in any tier, since it is no secret. */
function describeUrl(value: string): string {
  const expected =
    "a URI with a scheme and a host (RFC 3986), such as https://example.com/a";
  const isTemplate = value.includes("${");
  return isTemplate ? `${expected}, without the placeholder \${…}` : expected;
}

function isNumber(value: string): boolean {
  return value.trim() !== "" && Number.isFinite(Number(value));
}

function isJson(value: string): boolean {
  try {
    JSON.parse(value);
    return true;
  } catch {
    return false; // a SyntaxError
  }
}

/** The import of its types above is for `deno cache`, which downloads the library because of it. */
const LIBRARY: string = "npm:re2js@2.10.0";

/**
 * How many steps a match may take, which is about a second. A match takes at most one step for each instruction of the
 * compiled pattern and each character of the value.
 */
const MAX_STEPS = 20_000_000;

/** The part of the package `re2js` that is used: regular expressions in the syntax of Go, in linear time. */
export interface PatternLibrary {
  /** The class of compiled patterns. */
  readonly RE2JS: {
    /** Throws if the pattern is invalid. */
    compile(pattern: string): {
      /** Returns the number of instructions. */
      programSize(): number;
      /** Returns a matcher, whose method returns whether the pattern matches the whole value. */
      matcher(value: string): { matches(): boolean };
    };
  };
}

/** A compiled pattern of a manifest. */
interface Pattern {
  /** The maximum length of a value, in units of UTF-16. */
  readonly maxLength: number;
  /** Returns whether the pattern matches the whole value. */
  readonly matches: (value: string) => boolean;
}

/**
 * Compiles the patterns of a manifest.
 *
 * @param load Loads the library. It is not called if there is no pattern.
 * @param report Called with one sentence per issue, which contains patterns of PUBLIC variables only.
 * @returns The valid patterns by the name of their variable.
 */
async function compilePatterns(
  manifest: Manifest,
  load: () => Promise<PatternLibrary>,
  report: (issue: string) => void,
): Promise<Map<string, Pattern>> {
  const patterns = new Map<string, Pattern>();
  let library: PatternLibrary | undefined;
  for (const [name, { tier, pattern }] of manifest.variables) {
    if (pattern === undefined) continue;
    try {
      library ??= await load();
    } catch (error) {
      report(messageOf(error));
      break;
    }
    try {
      patterns.set(name, compile(pattern, library));
    } catch (error) {
      const place = `variables.${formatKey(name)}.pattern`;
      const expected = "expected a regular expression in the syntax of Go";
      const got = describeMistake(pattern, tier, error);
      const file = nameAt(place, manifest);
      report(`Cannot use ${file}: ${place}: ${expected}, got ${got}`);
    }
  }
  return patterns;
}

function compile(pattern: string, { RE2JS }: PatternLibrary): Pattern {
  const compiled = RE2JS.compile(pattern);
  return {
    maxLength: Math.floor(MAX_STEPS / compiled.programSize()),
    matches: (value) => compiled.matcher(value).matches(),
  };
}

/** The library's message contains the kind of the mistake, and the part of the pattern where it is. */
function describeMistake(pattern: string, tier: Tier, error: unknown): string {
  const message = messageOf(error).replace(/^error parsing regexp: /, "");
  const [, kind = "", part] = /^([^`]*?)(?:: `(.*)`)?$/s.exec(message) ?? [];
  if (tier !== "public" || hasSecret(pattern)) {
    return `${describeKind(pattern)}: ${kind}`;
  }
  const mistake = part ? `${kind} ${formatValue(part)}` : kind;
  return `${formatValue(pattern)}: ${mistake}`;
}

/**
 * Loads the library; see {@linkcode importPackage}.
 *
 * @throws {TypeError} If it is not installed and cannot be downloaded.
 */
export async function loadPatternLibrary(
  specifier: string = LIBRARY,
): Promise<PatternLibrary> {
  try {
    return await importPackage<typeof re2js>(specifier);
  } catch (error) {
    const reason = messageOf(error).replaceAll(/\s+/g, " ");
    throw new TypeError(
      `Cannot load ${specifier} for the patterns of the manifest: ${reason}; ` +
        `run \`deno cache ${specifier}\` where npm can be reached, or remove the patterns`,
    );
  }
}
