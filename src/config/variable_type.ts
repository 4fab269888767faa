import type { Tier } from "./tier.ts";

/**
 * The types that a manifest can give a variable (REP-RFC-0001 §6.2). A new type needs its name here and a row in
 * `RULES`, without which it does not compile; no other file changes.
 */
export type VariableType = "string" | "url" | "number" | "boolean" | "csv" | "json" | "enum";

/** The part of a declaration that the rules depend on. */
interface RuleContext {
  readonly tier: Tier;
  /** The values that an `enum` allows. */
  readonly values?: readonly string[];
}

/** How the values of a type are validated. */
interface TypeRule {
  readonly accepts: (value: string, context: RuleContext) => boolean;
  /** Describes a valid value: what follows "expected" in a message. */
  readonly describe: (context: RuleContext) => string;
}

const ANY_TEXT: TypeRule = { accepts: () => true, describe: () => "text" };

const RULES: Readonly<Record<VariableType, TypeRule>> = {
  string: ANY_TEXT,
  url: { accepts: isUrl, describe: () => "a URL" },
  number: { accepts: isNumber, describe: () => "a number" },
  boolean: { accepts: (value) => /^(true|false)$/i.test(value), describe: () => "true or false" },
  csv: ANY_TEXT,
  json: { accepts: isJson, describe: () => "JSON" },
  enum: {
    accepts: (value, { values = [] }) => values.includes(value),
    describe: ({ tier, values = [] }) =>
      tier === "public" ? `one of ${values.join(", ")}` : "one of the values in the manifest",
  },
};

/** All types, in the order of the manifest's specification. */
export const VARIABLE_TYPES = Object.keys(RULES) as readonly VariableType[];

/**
 * Validates a value against the type of its variable.
 *
 * @returns A description of a valid value, such as "a URL", if this one is invalid; `undefined` if it is valid. It
 * names values of PUBLIC variables only.
 */
export function typeIssue(
  value: string,
  declaration: RuleContext & { readonly type: VariableType },
): string | undefined {
  const { accepts, describe } = RULES[declaration.type];
  return accepts(value, declaration) ? undefined : describe(declaration);
}

/**
 * The URL standard trims whitespace, and parses `localhost:3000` as a URL with the scheme `localhost`: both are
 * invalid.
 */
function isUrl(value: string): boolean {
  return URL.canParse(value) && !/\s|^(localhost|[\w-]+(\.[\w-]+)+):\d/.test(value);
}

function isNumber(value: string): boolean {
  return value.trim() !== "" && Number.isFinite(Number(value));
}

function isJson(value: string): boolean {
  try {
    JSON.parse(value);
    return true;
  } catch {
    return false; // a SyntaxError is the answer to the question
  }
}
