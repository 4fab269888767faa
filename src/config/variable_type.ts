import { formatWord } from "./format_value.ts";
import type { Tier } from "./tier.ts";

/**
 * The types that a manifest can give a variable (REP-RFC-0001 §6.2). A new type needs its name here and a row in
 * `RULES`, without which it does not compile; no other file changes.
 */
export type VariableType =
  | "string"
  | "url"
  | "number"
  | "boolean"
  | "csv"
  | "json"
  | "enum";

/** The part of a declaration that the rules depend on. */
interface RuleContext {
  readonly tier: Tier;
  /** The values that an `enum` allows. */
  readonly values?: readonly string[] | undefined;
}

/** How the values of a type are validated. */
interface TypeRule {
  readonly accepts: (value: string, context: RuleContext) => boolean;
  /** Describes a valid value instead of this one: what follows "expected" in a message. */
  readonly describe: (context: RuleContext, value: string) => string;
}

const ANY_TEXT: TypeRule = { accepts: () => true, describe: () => "text" };

const RULES: Readonly<Record<VariableType, TypeRule>> = {
  string: ANY_TEXT,
  url: {
    accepts: isUrl,
    describe: (_, value) =>
      `a URI with a scheme and a host (RFC 3986), such as https://example.com/a${
        withoutPlaceholder(value)
      }`,
  },
  number: { accepts: isNumber, describe: () => "a number" },
  boolean: {
    accepts: (value) => /^(true|false)$/i.test(value),
    describe: () => "true or false",
  },
  csv: ANY_TEXT,
  json: { accepts: isJson, describe: () => "JSON" },
  enum: {
    accepts: (value, { values = [] }) => values.includes(value),
    describe: ({ tier, values = [] }) =>
      tier === "public"
        ? `one of ${values.map(formatWord).join(", ")}`
        : "one of the values in the manifest",
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
  return accepts(value, declaration) ? undefined : describe(declaration, value);
}

// RFC 3986 §2 and §3, with an authority whose host is not empty. Numbers in hosts are left to `URL`.
const CHARACTER = "(?:[\\w.~!$&'()*+,;=-]|%[0-9A-F]{2})";
const AUTHORITY =
  `(?:(?:${CHARACTER}|:)*@)?(?:\\[[0-9A-F:.]+\\]|${CHARACTER}+)(?::\\d*)?`;
const PATH = `(?:/(?:${CHARACTER}|[:@/])*)?`;
const QUERY_OR_FRAGMENT = `(?:${CHARACTER}|[:@/?])*`;
const URI = new RegExp(
  `^[A-Z][A-Z0-9+.-]*://${AUTHORITY}${PATH}(?:\\?${QUERY_OR_FRAGMENT})?(?:#${QUERY_OR_FRAGMENT})?$`,
  "i",
);

/** In a link, these URLs run or show what they contain. */
const UNSAFE_SCHEME = /^(?:javascript|data):/i;

function isUrl(value: string): boolean {
  return URI.test(value) && !UNSAFE_SCHEME.test(value) && URL.canParse(value);
}

/** Names what is in a value because nothing has replaced it. */
function withoutPlaceholder(value: string): string {
  return value.includes("${") ? ", without the placeholder ${…}" : "";
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
