import type { NumberOption, NumberRange } from "../../options.ts";
import { EXPECTED_APP, isAppName } from "../../store/app_store.ts";
import {
  formatByteSize,
  formatDuration,
  parseByteSize,
  parseDuration,
} from "../../values/units.ts";

/** An option of the command, wherever it is set. */
export interface Option<T> {
  /** Description for `--help`, in one line. */
  readonly help: string;
  /** Placeholder of the value in `--help`; a switch has none. */
  readonly value?: string;
  /** Value if the option is not set. */
  readonly default: T;
  /** Name of the option in the `settings` of a manifest. */
  readonly manifest?: string;
  /** Type of the value in a manifest. Lists are separated by commas everywhere else. */
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

/** The booleans of Go's `strconv.ParseBool`, so that the environment of REP's Go gateway can be used unchanged. */
const TRUE: readonly string[] = ["1", "t", "T", "TRUE", "true", "True"];
const FALSE: readonly string[] = ["0", "f", "F", "FALSE", "false", "False"];

/** A switch: `--name` alone turns it on. */
export function toggle(help: string): Option<boolean> {
  const expected = "true or false";
  return { help, type: "boolean", default: false, expected, parse };

  function parse(text: string): boolean | undefined {
    if (TRUE.includes(text)) return true;
    return FALSE.includes(text) ? false : undefined;
  }
}

/** An option whose value is a text, without a default. */
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
  const parse = (input: string) =>
    input === "" || input.includes("\0") ? undefined : input;
  return textual(value, "a non-empty value", parse, help);
}

/** One of some words. */
export function choice<const T extends string, const D extends T | undefined>(
  values: readonly T[],
  defaultValue: D,
  help: string,
): Option<T | D> {
  const parse = (text: string) => values.find((value) => value === text);
  const expected = `one of ${values.join(", ")}`;
  const option = textual<T>(values.join("|"), expected, parse, help);
  return { ...option, default: defaultValue } as Option<T | D>;
}

export function duration(range: NumberOption, help: string): Option<number> {
  const { min, max, step } = range;
  const steps = step ? ` in steps of ${formatDuration(step)}` : "";
  const [from, to] = [formatDuration(min), formatDuration(max)];
  const example = formatDuration(range.default);
  const expected =
    `a duration from ${from} to ${to}${steps}, such as ${example}`;
  const parse = (text: string) => inRange(parseDuration(text), range);
  const option = textual("DURATION", expected, parse, help);
  return withDefault(range.default, option);
}

export function byteSize(range: NumberOption, help: string): Option<number> {
  const [from, to] = [formatByteSize(range.min), formatByteSize(range.max)];
  const example = formatByteSize(range.default);
  const expected = `a size from ${from} to ${to}, such as ${example}`;
  const parse = (text: string) => inRange(parseByteSize(text), range);
  const option = textual("SIZE", expected, parse, help);
  return withDefault(range.default, option);
}

/** An integer. */
export function integer(range: NumberOption, help: string): Option<number>;
/** An integer without a default. */
export function integer(
  range: NumberRange,
  help: string,
  value?: string,
): Option<number | undefined>;
export function integer(
  range: NumberRange & { readonly default?: number },
  help: string,
  value = "N",
): Option<number | undefined> {
  return {
    help,
    type: "number",
    default: range.default,
    value,
    expected: `an integer from ${range.min} to ${range.max}`,
    parse: (text) =>
      /^\d{1,16}$/.test(text) ? inRange(Number(text), range) : undefined,
  };
}

function inRange(
  value: number | undefined,
  { min, max, step = 1 }: NumberRange,
): number | undefined {
  if (value === undefined || value < min || value > max) return undefined;
  return value % step === 0 ? value : undefined;
}

/**
 * A list. A comma in the braces of a glob separates nothing.
 *
 * @param expected Description of valid items.
 * @param parseItem Returns `undefined` for an invalid item.
 */
export function list(
  value: string,
  expected: string,
  parseItem: (item: string) => string | undefined,
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
  const parsePath = (path: string) => path.includes("\0") ? undefined : path;
  return list(value, "paths", parsePath, help);
}

/** The same list, which may be empty: where an empty one is the most restrictive. */
export function orEmpty(
  option: Option<readonly string[]>,
): Option<readonly string[]> {
  const parse = (text: string) =>
    /^[\s,]*$/.test(text) ? [] : option.parse(text);
  return { ...option, parse };
}

/** The same option, in upper or lower case. */
export function ignoringCase<const T>(option: Option<T>): Option<T> {
  return { ...option, parse: (text) => option.parse(text.toLowerCase()) };
}

/** The same option with a default. */
export function withDefault<T>(
  value: T,
  option: Option<T | undefined>,
): Option<T> {
  return { ...option, default: value } as Option<T>;
}

/** The same option, which can be set in a manifest as well. */
export function inManifest<const T>(
  name: string,
  option: Option<T>,
): Option<T> {
  return { ...option, manifest: name };
}

export const PORTS = { min: 0, max: 65_535 };

/** The gateway's port. */
export function port(help: string): Option<number> {
  return integer({ min: PORTS.min, max: PORTS.max, default: 8080 }, help);
}

/** An app's name. */
export function app(help: string): Option<string | undefined> {
  const parse = (name: string) => isAppName(name) ? name : undefined;
  return textual("NAME", EXPECTED_APP, parse, help);
}
