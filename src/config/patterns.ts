import type * as re2js from "npm:re2js@2.10.0";
import { messageOf } from "../observe/log.ts";
import { importPackage } from "../values/runtime.ts";
import { formatKey } from "./fields.ts";
import { describeKind, formatValue, hasSecret } from "./format_value.ts";
import type { Manifest } from "./manifest.ts";
import type { Tier } from "./tier.ts";

/** `deno cache` finds it by the import of its types. */
const LIBRARY: string = "npm:re2js@2.10.0";

/**
 * How many steps a match may take, which is about a second: at most one for each instruction of the compiled pattern
 * and each character of the value.
 */
const MAX_STEPS = 20_000_000;

/** The part of the package `re2js` that is used: regular expressions in the syntax of Go, in linear time. */
export interface PatternLibrary {
  /** Its class of compiled patterns. */
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
export interface Pattern {
  /** How long a value may be, in units of UTF-16. */
  readonly maxLength: number;
  /** Returns whether the pattern matches the whole value. */
  readonly matches: (value: string) => boolean;
}

/** The result of {@linkcode compilePatterns}. */
interface CompiledPatterns {
  /** The valid patterns by the name of their variable. */
  readonly patterns: ReadonlyMap<string, Pattern>;
  /** One sentence per issue. Only patterns of PUBLIC variables are named. */
  readonly issues: readonly string[];
}

/**
 * Compiles the patterns of a manifest.
 *
 * @param load Loads the library, which nothing needs if there is no pattern.
 */
export async function compilePatterns(
  { name: manifest, variables: declarations }: Manifest,
  load: () => Promise<PatternLibrary>,
): Promise<CompiledPatterns> {
  const patterns = new Map<string, Pattern>();
  if (
    [...declarations.values()].every(({ pattern }) => pattern === undefined)
  ) return { patterns, issues: [] };
  const library = await load().catch(messageOf);
  if (typeof library === "string") return { patterns, issues: [library] };
  const issues: string[] = [];
  for (const [name, { tier, pattern }] of declarations) {
    if (pattern === undefined) continue;
    try {
      patterns.set(name, compile(pattern, library));
    } catch (error) {
      const expected = `expected a regular expression in the syntax of Go, ${
        gotInvalid(pattern, tier, error)
      }`;
      issues.push(
        `Cannot use ${manifest}: variables.${
          formatKey(name)
        }.pattern: ${expected}`,
      );
    }
  }
  return { patterns, issues };
}

function compile(pattern: string, { RE2JS }: PatternLibrary): Pattern {
  const compiled = RE2JS.compile(pattern);
  return {
    maxLength: Math.floor(MAX_STEPS / compiled.programSize()),
    matches: (value) => compiled.matcher(value).matches(),
  };
}

/** The library's message has the kind of the mistake, and the part of the pattern that has it. */
function gotInvalid(pattern: string, tier: Tier, error: unknown): string {
  const [, kind = "", part = ""] =
    /^(?:error parsing regexp: )?([^`]*?)(?:: `(.*)`)?$/s.exec(
      messageOf(error),
    ) ?? [];
  if (tier !== "public" || hasSecret(pattern)) {
    return `got ${describeKind(pattern)}: ${kind}`;
  }
  return `got ${formatValue(pattern)}: ${kind}${
    part === "" ? "" : ` ${formatValue(part)}`
  }`;
}

/**
 * Loads the library; see {@linkcode importPackage}.
 *
 * @throws {TypeError} If it is neither installed nor can be downloaded.
 */
export async function loadPatternLibrary(
  specifier: string = LIBRARY,
): Promise<PatternLibrary> {
  try {
    return await importPackage<typeof re2js>(specifier);
  } catch (error) {
    const reason = messageOf(error).replaceAll(/\s+/g, " ");
    const remedy =
      `run \`deno cache ${specifier}\` where npm can be reached, or remove the patterns`;
    throw new TypeError(
      `Cannot load ${specifier} for the patterns of the manifest: ${reason}; ${remedy}`,
    );
  }
}
