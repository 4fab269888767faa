import type {
  GatewayOptions,
  ListOption,
  NumberOption,
  NumberRange,
} from "../../options.ts";
import {
  formatByteSize,
  formatDuration,
  parseByteSize,
  parseDuration,
} from "../../core/values/units.ts";

/** An option of the command. */
export interface Option<T> {
  /** Description for `--help`, in one line. */
  readonly help: string;
  /** Placeholder of the value in `--help`. @default {none, for a switch} */
  readonly value?: string;
  /** Value if the option is not set. */
  readonly default: T;
  /** Name of the option in the `settings` of a manifest. @default {it cannot be set there} */
  readonly manifest?: string;
  /** Name of the gateway's option that gets its value. @default {it is an option of the process} */
  readonly gateway?: keyof GatewayOptions;
  /** Type of the value in a manifest. Everywhere else, it is text; lists are separated by commas. */
  readonly type: "boolean" | "number" | "string" | "list";
  /** Description of a valid value, for error messages. */
  readonly expected: string;
  /** Parses a value; `undefined` if it is invalid. */
  readonly parse: (text: string) => T | undefined;
}

/** Options by name. */
export type OptionTable = Readonly<Record<string, Option<unknown>>>;

/** The value of every option of a table. */
export type OptionValues<Table> = {
  readonly [N in keyof Table]: Table[N] extends Option<infer T> ? T : never;
};

/** The booleans of Go's `strconv.ParseBool`, so that users can keep the environment of REP's Go gateway. */
const TRUE: readonly string[] = ["1", "t", "T", "TRUE", "true", "True"];
const FALSE: readonly string[] = ["0", "f", "F", "FALSE", "false", "False"];

/** A switch: `--name` alone turns it on. */
export function toggle(help: string): Option<boolean> {
  return {
    help,
    type: "boolean",
    default: false,
    expected: "true or false",
    parse: parseBoolean,
  };
}

function parseBoolean(text: string): boolean | undefined {
  if (TRUE.includes(text)) return true;
  return FALSE.includes(text) ? false : undefined;
}

/**
 * An option whose value is a text, without a default.
 *
 * @param value Placeholder in `--help`.
 * @param expected Description of a valid text.
 * @param parse Returns `undefined` for an invalid text.
 */
export function textual<T>(
  value: string,
  expected: string,
  parse: (text: string) => T | undefined,
  help: string,
): Option<T | undefined> {
  return { help, type: "string", default: undefined, value, expected, parse };
}

/** Any text that is not empty. */
export function text(value: string, help: string): Option<string | undefined> {
  return textual(value, "a non-empty value", parseText, help);
}

function parseText(input: string): string | undefined {
  return input === "" || input.includes("\0") ? undefined : input;
}

/** One of several words. */
export function choice<const T extends string>(
  values: readonly T[],
  help: string,
): Option<T | undefined> {
  const parse = (text: string) => values.find((value) => value === text);
  const expected = `one of ${values.join(", ")}`;
  return textual(values.join("|"), expected, parse, help);
}

export function duration(range: NumberOption, help: string): Option<number> {
  const expected = expectedOf("a duration", range, formatDuration);
  const parse = (text: string) => inRange(parseDuration(text), range);
  const option = textual("DURATION", expected, parse, help);
  return withDefault(range.default, option);
}

export function byteSize(range: NumberOption, help: string): Option<number> {
  const expected = expectedOf("a size", range, formatByteSize);
  const parse = (text: string) => inRange(parseByteSize(text), range);
  const option = textual("SIZE", expected, parse, help);
  return withDefault(range.default, option);
}

function expectedOf(
  what: string,
  { min, max, step, default: example }: NumberOption,
  format: (amount: number) => string,
): string {
  const steps = step === undefined ? "" : ` in steps of ${format(step)}`;
  const range = `from ${format(min)} to ${format(max)}${steps}`;
  return `${what} ${range}, such as ${format(example)}`;
}

/** The range and the default of a port. */
export const PORT = { min: 0, max: 65_535, default: 8080 };

export function integer(range: NumberOption, help: string): Option<number> {
  return withDefault(range.default, optionalInteger(range, "N", help));
}

/** An integer without a default. */
export function optionalInteger(
  range: NumberRange,
  value: string,
  help: string,
): Option<number | undefined> {
  const expected = `an integer from ${range.min} to ${range.max}`;
  return { help, type: "number", default: undefined, value, expected, parse };

  function parse(text: string): number | undefined {
    return /^\d{1,16}$/.test(text) ? inRange(Number(text), range) : undefined;
  }
}

function inRange(
  value: number | undefined,
  { min, max, step = 1 }: NumberRange,
): number | undefined {
  if (value === undefined || value < min || value > max) return undefined;
  return value % step === 0 ? value : undefined;
}

/**
 * A list. Commas separate its items, except in the braces of a glob.
 *
 * @param value Placeholder in `--help`.
 */
export function list(
  value: string,
  { expected, parse: parseItem }: ListOption,
  help: string,
): Option<readonly string[]> {
  return { help, type: "list", default: [], value, expected, parse };

  function parse(input: string): readonly string[] | undefined {
    const texts = input.split(/,(?![^{}]*\})/).map((item) => item.trim());
    const items = texts.filter((item) => item !== "").map(parseItem);
    const valid = items.filter((item) => item !== undefined);
    const isValid = valid.length > 0 && valid.length === items.length;
    return isValid ? valid : undefined;
  }
}

/** A list of paths or globs. */
export function paths(value: string, help: string): Option<readonly string[]> {
  return list(value, { expected: "paths", parse: parseText }, help);
}

/** Returns the same option, but the list may be empty. This is for lists whose empty value is the most restrictive. */
export function orEmpty(
  option: Option<readonly string[]>,
): Option<readonly string[]> {
  const parse = (text: string) =>
    /^[\s,]*$/.test(text) ? [] : option.parse(text);
  return { ...option, parse };
}

/** Returns the same option, which ignores the case of its value. */
export function ignoringCase<T>(option: Option<T>): Option<T> {
  return { ...option, parse: (text) => option.parse(text.toLowerCase()) };
}

/** Returns the same option with a default. */
export function withDefault<T>(
  value: T,
  option: Option<T | undefined>,
): Option<T> {
  return { ...option, default: value } as Option<T>;
}

/** Returns the same option, which can also be set in a manifest. */
export function inManifest<T>(name: string, option: Option<T>): Option<T> {
  return { ...option, manifest: name };
}

/** Returns the same option, whose value the gateway gets as the option of this name. */
export function sets<
  Name extends keyof GatewayOptions,
  T extends GatewayOptions[Name],
>(name: Name, option: Option<T>): Option<T> & { readonly gateway: Name } {
  return { ...option, gateway: name };
}
