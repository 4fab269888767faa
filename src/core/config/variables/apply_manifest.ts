import type * as re2js from "npm:re2js@2.10.0";
import { messageOf } from "../../observe/log.ts";
import { parseJson } from "../../values/parse_json.ts";
import { didYouMean, findSimilar } from "../../values/did_you_mean.ts";
import { importPackage } from "../../values/runtime.ts";
import { type Declaration, type Manifest, nameAt } from "./manifest.ts";
import {
  describeKind,
  formatKey,
  formatValue,
  formatWord,
  hasSecret,
} from "./quote.ts";
import { DEPRECATED, type Finding, suspiciousName } from "./finding.ts";
import { environmentName, hasTier, type Tier, type Variable } from "./tiers.ts";

/** Why a configuration is invalid. */
export interface Issue {
  /** The variable in question, as in the environment; absent if the manifest itself is invalid. */
  readonly variable?: string | undefined;
  /** One sentence. It contains values of PUBLIC variables only. */
  readonly text: string;
}

/** Options of {@linkcode applyManifest}. */
export interface ApplyOptions {
  /** The tiers whose required variables have to be set. */
  readonly requiredTiers: readonly Tier[];
  /** Loads the library that evaluates patterns. @default {loadPatternLibrary} */
  readonly loadPatternLibrary?: (() => Promise<PatternLibrary>) | undefined;
}

/**
 * Validates variables against a manifest and adds its defaults (endpoint specification, Health report, rule 1), except
 * those of required variables. The issues include those of the manifest itself.
 *
 * @param ignoredNames Names in the environment that are ignored, since they have no tier, and that may be misspelled.
 */
export async function applyManifest(
  variables: readonly Variable[],
  manifest: Manifest,
  ignoredNames: readonly string[],
  { requiredTiers, loadPatternLibrary: load = loadPatternLibrary }:
    ApplyOptions,
) {
  const issues: Issue[] = manifest.issues.map((text) => ({ text }));
  const patterns = await compilePatterns(
    manifest,
    load,
    (text) => issues.push({ text }),
  );
  const given = new Map(variables.map((variable) => [variable.name, variable]));
  const findings = findUndeclared(given, manifest);
  const otherNames = [...ignoredNames, ...findings.map(({ name }) => name)];
  const all = [...variables];
  for (const [name, declaration] of manifest.variables) {
    const { tier, required, default: value } = declaration;
    const key = environmentName({ name, tier });
    const place = nameAt(name, manifest);
    const pattern = patterns.get(name);
    if (value !== undefined) { // valid even while it is not used (REP-RFC-0001 §6.3)
      const subject = `the default of ${key} in ${place}`;
      const text = valueIssue(subject, value, declaration, pattern);
      if (text !== undefined) issues.push({ text });
    }
    const variable = given.get(name);
    if (variable === undefined) {
      if (!required && value !== undefined) all.push({ name, tier, value });
      if (required && requiredTiers.includes(tier)) {
        const text = missingIssue({ name, tier }, place, otherNames);
        issues.push({ variable: key, text });
      }
      continue;
    }
    const givenKey = environmentName(variable);
    const text = givenKey === key
      ? valueIssue(key, variable.value, declaration, pattern)
      : `Cannot use ${givenKey}: ${place} declares it as ${key}`;
    if (text !== undefined) issues.push({ variable: givenKey, text });
    if (declaration.deprecated) {
      const detail = declaration.deprecatedMessage;
      findings.push({ event: DEPRECATED, name, detail });
    }
    if (required && variable.value === "") {
      const event = "rep.config.empty"; // which REP-RFC-0001 §6.3 permits
      findings.push({ event, name: givenKey, detail: EMPTY_VALUE });
    }
  }
  const normalized = all.map((variable) => normalize(variable, manifest));
  return { variables: normalized, issues, findings };
}

const EMPTY_VALUE = "it is required, but set to nothing";

/** Finds variables that a manifest with declarations does not declare. What is meant may be a name that is not set. */
function findUndeclared(
  given: ReadonlyMap<string, Variable>,
  { variables }: Manifest,
): Finding[] {
  if (variables.size === 0) return []; // it may contain settings only
  const unset = [...variables.keys()].filter((name) => !given.has(name));
  const undeclared: Finding[] = [];
  for (const variable of given.values()) {
    if (variables.has(variable.name)) continue;
    const hint = didYouMean(variable.name, unset);
    const detail = `the manifest does not declare it${hint}`;
    undeclared.push(suspiciousName(environmentName(variable), detail));
  }
  return undeclared;
}

/** Writes booleans in lower case, in which the generated types declare them. Any case is valid (REP-RFC-0001 §6.2). */
function normalize(variable: Variable, { variables }: Manifest): Variable {
  const { name, tier, value } = variable;
  const isBoolean = variables.get(name)?.type === "boolean";
  return isBoolean ? { name, tier, value: value.toLowerCase() } : variable;
}

function missingIssue(
  variable: Pick<Variable, "name" | "tier">,
  place: string,
  otherNames: readonly string[],
): string {
  const { name } = variable;
  const key = environmentName(variable);
  const isWithoutTier = (other: string) =>
    !hasTier(other) && other.endsWith(`_${name}`);
  const similar = otherNames.find(isWithoutTier) ??
    findSimilar(key, otherNames);
  const hint = similar === undefined ? "" : `; is it misspelled as ${similar}?`;
  return `Cannot find ${key}: ${place} requires it, but it is not set${hint}`;
}

/**
 * Returns what is wrong with a value first; `undefined` if it is valid.
 *
 * @param subject What the value is, for the message.
 */
function valueIssue(
  subject: string,
  value: string,
  declaration: Declaration,
  pattern: Pattern | undefined,
): string | undefined {
  const expected = typeIssue(value, declaration) ??
    (pattern && patternIssue(value, declaration, pattern));
  if (expected === undefined) return undefined;
  const got = describeValue(value, declaration.tier);
  return `Cannot use ${subject}: expected ${expected}, got ${got}`;
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
  const maxLength = pattern.maxLength();
  if (value.length > maxLength) {
    return `at most ${maxLength} characters for ${shown}, or smaller counts in its braces`;
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
      return isUrl(value) ? undefined : EXPECTED_URL;
    case "number":
      return isNumber(value) ? undefined : "a number";
    case "boolean":
      return /^(true|false)$/i.test(value) ? undefined : "true or false";
    case "json":
      return parseJson(value) === undefined ? "JSON" : undefined;
    case "enum":
      if (values.includes(value)) return undefined;
      if (tier !== "public") return "one of the values in the manifest";
      return `one of ${values.map(formatWord).join(", ")}`;
  }
}

// A scheme, a host, and no character that RFC 3986 does not have. `URL` checks the host.
const URI =
  /^[a-z][a-z0-9+.-]*:\/\/(?![/?#])(?:[\w.~!$&'()*+,;=:@/?#[\]-]|%[0-9a-f]{2})+$/i;
const EXPECTED_URL =
  "a URI with a scheme and a host (RFC 3986), such as https://example.com/a";

/** A link to such a URL runs or shows what the URL contains. */
const UNSAFE_SCHEME = /^(?:javascript|data):/i;

function isUrl(value: string): boolean {
  return URI.test(value) && !UNSAFE_SCHEME.test(value) && URL.canParse(value);
}

function isNumber(value: string): boolean {
  return value.trim() !== "" && Number.isFinite(Number(value));
}

/** The import of its types above is for `deno cache`, which downloads the library because of it. */
const LIBRARY: string = "npm:re2js@2.10.0";

/**
 * How many steps the matches of all patterns may take, which is about a second. A match takes at most one step for each
 * instruction of the compiled pattern and each character of the value.
 */
const MAX_STEPS = 20_000_000;

/** How many instructions all patterns may have, so that compiling them takes less than a second as well. */
const MAX_INSTRUCTIONS = 100_000;

/** The longest pattern: it could have more instructions than that, which only compiling it would show. */
const MAX_PATTERN_LENGTH = 4_000;

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
  /** The number of its instructions. */
  readonly size: number;
  /** Returns the maximum length of a value, in units of UTF-16, after what has been matched so far. */
  readonly maxLength: () => number;
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
  report: (text: string) => void,
): Promise<Map<string, Pattern>> {
  const patterns = new Map<string, Pattern>();
  const left = { steps: MAX_STEPS, instructions: MAX_INSTRUCTIONS };
  let library: PatternLibrary | undefined;
  for (const [name, { tier, pattern }] of manifest.variables) {
    if (pattern === undefined) continue;
    try {
      library ??= await load();
    } catch (error) {
      report(messageOf(error));
      break;
    }
    const place = `variables.${formatKey(name)}.pattern`;
    const subject = `Cannot use ${nameAt(name, manifest)}: ${place}`;
    try {
      const isLong = pattern.length > MAX_PATTERN_LENGTH;
      const compiled = isLong ? undefined : compile(pattern, library, left);
      left.instructions -= compiled?.size ?? Infinity;
      if (compiled === undefined || left.instructions < 0) {
        report(`${subject}: ${EXPECTED_SMALL}`);
        break;
      }
      patterns.set(name, compiled);
    } catch (error) {
      const expected = "expected a regular expression in the syntax of Go";
      const got = describeMistake(pattern, tier, error);
      report(`${subject}: ${expected}, got ${got}`);
    }
  }
  return patterns;
}

const EXPECTED_SMALL =
  `expected patterns of at most ${MAX_PATTERN_LENGTH} characters and, compiled, at most ${MAX_INSTRUCTIONS} instructions together; use fewer patterns, or smaller counts in their braces`;

/** @param left The steps that all matches together may still take. */
function compile(
  pattern: string,
  { RE2JS }: PatternLibrary,
  left: { steps: number },
): Pattern {
  const compiled = RE2JS.compile(pattern);
  const size = compiled.programSize();
  return {
    size,
    maxLength: () => Math.floor(left.steps / size),
    matches(value) {
      left.steps -= size * value.length;
      return compiled.matcher(value).matches();
    },
  };
}

/** The library's message contains the kind of the mistake, and the part of the pattern where it is. */
function describeMistake(pattern: string, tier: Tier, error: unknown): string {
  const message = messageOf(error).replace(/^error parsing regexp: /, "");
  const [kind] = message.split(": `");
  const isShown = tier === "public" && !hasSecret(pattern);
  const shown = isShown ? formatValue(pattern) : describeKind(pattern);
  return `${shown}: ${kind}`;
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
