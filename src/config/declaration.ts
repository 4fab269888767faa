import { FieldReader } from "./field_reader.ts";
import { type Fields, formatKey, type Report } from "./fields.ts";
import { describeKind, isMapping } from "./format_value.ts";
import { type Tier, TIERS } from "./tier.ts";
import { VARIABLE_TYPES, type VariableType } from "./variable_type.ts";

/** What a manifest declares about one variable. */
export interface Declaration {
  readonly tier: Tier;
  readonly type: VariableType;
  /** Whether the variable must be set. */
  readonly required: boolean;
  /** The value of the variable if it is not set. */
  readonly default: string | undefined;
  /** What the variable is for. */
  readonly description: string | undefined;
  /** What the whole value must match, in the syntax of Go. */
  readonly pattern: string | undefined;
  /** The values that an `enum` allows. */
  readonly values: readonly string[] | undefined;
  /** Whether the variable should no longer be set. */
  readonly deprecated: boolean;
  /** What to tell those who still set it. */
  readonly deprecatedMessage: string | undefined;
}

/** The fields of a declaration except its tier. */
type OtherFields = Omit<Declaration, "tier">;

/**
 * Reads the declaration of a variable and reports all its issues.
 *
 * @param value A YAML value of any type.
 * @param texts The same value with scalars as the manifest writes them, if it is a mapping.
 * @returns `undefined` if the declaration has no valid tier.
 */
export function readDeclaration(
  name: string,
  { value, texts }: { readonly value: unknown; readonly texts: Fields },
  report: Report,
): Declaration | undefined {
  const where = `variables.${formatKey(name)}`;
  if (name === "") report("variables: expected a name for every variable");
  if (!isMapping(value)) {
    return void report(
      `${where}: expected a mapping with a tier, got ${describeKind(value)}`,
    );
  }
  const reader = new FieldReader(value, texts, where);
  const tier = reader.oneOf("tier", TIERS);
  const fields = readFields(reader);
  if (tier !== undefined) checkConsistency(fields, reader);
  for (const issue of reader.issues()) report(issue);
  return tier && { tier, ...fields };
}

/** `example` is for the readers of the manifest: it is validated, but not kept. */
function readFields(reader: FieldReader): OtherFields {
  const { example: _example, ...fields } = {
    type: reader.oneOf("type", VARIABLE_TYPES, "string") ?? "string",
    required: reader.boolean("required"),
    default: reader.string("default"),
    description: reader.comment("description"),
    example: reader.comment("example"),
    pattern: reader.string("pattern"),
    values: reader.strings("values"),
    deprecated: reader.boolean("deprecated"),
    deprecatedMessage: reader.comment("deprecated_message"),
  };
  return fields;
}

function checkConsistency(
  { type, values, required, default: defaultValue }: OtherFields,
  reader: FieldReader,
): void {
  if (type === "enum" && values === undefined) {
    reader.report(
      "values",
      "expected the allowed values of the enum, got nothing",
    );
  }
  if (required && defaultValue !== undefined) {
    reader.report("default", "expected no default for a required variable");
  }
}
