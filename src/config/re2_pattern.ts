/** A regular expression in JavaScript's syntax with the flag `u`, or the construct that has no translation. */
type Translation = { readonly source: string } | { readonly unsupported: string };

/**
 * Translates a pattern from the syntax of RE2 (https://github.com/google/re2/wiki/Syntax), which REP's Go gateway uses,
 * to JavaScript's. What both have in common stays as it is, and so do lookaheads and other constructs of JavaScript
 * only. The result matches the same whole values; how greedy it is may differ.
 *
 * @returns The translation, which may still be invalid, or a construct that has none, such as `\Z`.
 */
export function translateRe2(pattern: string): Translation {
  try {
    return { source: new Translator().translate(pattern) };
  } catch (error) {
    if (error instanceof UnsupportedConstruct) return { unsupported: error.message };
    throw error;
  }
}

/** The message is the construct. */
class UnsupportedConstruct extends Error {}

/** The characters of RE2's ASCII classes, as ranges. */
const POSIX_CLASSES: Readonly<Record<string, readonly string[]>> = {
  alnum: ["09", "AZ", "az"],
  alpha: ["AZ", "az"],
  ascii: ["\0\x7f"],
  blank: ["\t\t", "  "],
  cntrl: ["\0\x1f", "\x7f\x7f"],
  digit: ["09"],
  graph: ["!~"],
  lower: ["az"],
  print: [" ~"],
  punct: ["!/", ":@", "[`", "{~"],
  space: ["\t\r", "  "],
  upper: ["AZ"],
  word: ["09", "AZ", "__", "az"],
  xdigit: ["09", "AF", "af"],
};

/**
 * What may follow a backslash in JavaScript with the flag `u` and means the same there: letters, and its own syntax.
 */
const SHARED_ESCAPES = "dDwWsSbBnrtfvcuxk123456789^$\\.*+?()[]{}|/";
const LAST_CODE_POINT = 0x10ffff;

const ESCAPES = [
  /\\x\{(?<hex>[0-9A-Fa-f]{1,6})\}/,
  /\\(?<property>[pP])(?:\{(?<negation>\^?)(?<name>\w+)\}|(?<letter>[A-Z]))/,
  /\\(?<octal>0[0-7]{0,2}|[1-7][0-7]{2})/,
  /\\(?<escaped>[^])/,
];
const OUTSIDE_CLASSES = [
  /\\Q(?<quoted>[^]*?)(?:\\E|$)/,
  ...ESCAPES,
  /\(\?(?<flags>[imsU]*(?:-[imsU]+)?)(?<flagsEnd>[:)])/,
  /\(\?P<(?<group>\w+)>/,
  /(?<quantifier>\{\d+(?:,\d*)?\})/,
  /(?<classStart>\[\^?\]?)/,
  /(?<character>[^])/,
];
const INSIDE_CLASSES = [...ESCAPES, /\[:(?<posixNegation>\^?)(?<posix>\w+):\]/, /(?<character>[^])/];

const OUTSIDE = anyOf(OUTSIDE_CLASSES);
const INSIDE = anyOf(INSIDE_CLASSES);

function anyOf(constructs: readonly RegExp[]): RegExp {
  return new RegExp(constructs.map(({ source }) => source).join("|"), "uy");
}

/** The named parts of a construct. */
type Parts = Readonly<Partial<Record<string, string>>>;

/** Translates one pattern from left to right. */
class Translator {
  /** The flags that were set within each open group: they apply up to its end, alternatives included. */
  readonly #groups: string[][] = [[]];
  #isInClass = false;

  translate(pattern: string): string {
    let source = "";
    for (let index = 0; index < pattern.length;) {
      const construct = this.#isInClass ? INSIDE : OUTSIDE;
      construct.lastIndex = index;
      const match = construct.exec(pattern);
      source += this.#translate(match?.groups ?? {}, match?.[0] ?? "");
      index = construct.lastIndex;
    }
    return source + this.#endFlags();
  }

  #translate(parts: Parts, text: string): string {
    if (parts.quoted !== undefined) return [...parts.quoted].map(escape).join("");
    if (parts.hex !== undefined) return `\\u{${parts.hex}}`;
    if (parts.property !== undefined) return property(parts, text);
    if (parts.octal !== undefined) return `\\u{${parseInt(parts.octal, 8).toString(16)}}`;
    if (parts.escaped !== undefined) return this.#escaped(parts.escaped);
    if (parts.posix !== undefined) return posixClass(parts, text);
    if (parts.flags !== undefined) return this.#setFlags(parts.flags, parts.flagsEnd === ":");
    if (parts.group !== undefined) return this.#openGroup("("); // RE2 has no references to names
    if (parts.quantifier !== undefined) return parts.quantifier;
    if (parts.classStart !== undefined) return this.#startClass(parts.classStart);
    return this.#isInClass ? this.#inClass(text) : this.#character(text);
  }

  #escaped(character: string): string {
    if (character === "a") return "\\x07";
    if (SHARED_ESCAPES.includes(character)) return `\\${character}`;
    if (character === "-" && this.#isInClass) return "\\-";
    if (character === "A" && !this.#isInClass) return "(?:(?<![^]))"; // unlike ^, whatever the flag m is
    if (character === "z" && !this.#isInClass) return "(?:(?![^]))";
    if (/[A-Za-z0-9]/.test(character)) throw new UnsupportedConstruct(`\\${character}`);
    return character;
  }

  /** `(?flags)` applies to the rest of its group, for which JavaScript needs a group of its own. */
  #setFlags(flags: string, hasGroup: boolean): string {
    const open = `(?${flags.replaceAll("U", "").replace(/-$/, "")}:`; // whole values are matched: U changes nothing
    if (hasGroup) return this.#openGroup(open);
    this.#groups.at(-1)?.push(open);
    return open;
  }

  #openGroup(open: string): string {
    this.#groups.push([]);
    return open;
  }

  #endFlags(): string {
    return ")".repeat(this.#groups.at(-1)?.length ?? 0);
  }

  /** In RE2, a `]` at the beginning of a class is one of its characters. */
  #startClass(start: string): string {
    this.#isInClass = true;
    return start.replace("]", "\\]");
  }

  #inClass(character: string): string {
    if (character === "]") this.#isInClass = false;
    return character;
  }

  #character(character: string): string {
    if (character === "(") return this.#openGroup("(");
    if (character === "|") return `${this.#endFlags()}|${this.#groups.at(-1)?.join("") ?? ""}`;
    if (character === ")") {
      const end = `${this.#endFlags()})`;
      this.#groups.pop();
      return end;
    }
    return "]{}".includes(character) ? `\\${character}` : character;
  }
}

function escape(character: string): string {
  return /[\^$\\.*+?()[\]{}|/]/.test(character) ? `\\${character}` : character;
}

/** JavaScript has scripts such as `Greek` as `Script=Greek` only, and no `^`. */
function property({ property, negation, name, letter }: Parts, text: string): string {
  const isNegative = (property === "P") !== (negation === "^");
  const names = [name ?? letter, `Script=${name ?? letter}`];
  const sources = names.map((name) => `\\${isNegative ? "P" : "p"}{${name}}`);
  const source = sources.find(isValid);
  if (source === undefined) throw new UnsupportedConstruct(text);
  return source;
}

function isValid(source: string): boolean {
  try {
    new RegExp(source, "u");
    return true;
  } catch {
    return false; // a SyntaxError is the answer to the question
  }
}

function posixClass({ posix = "", posixNegation }: Parts, text: string): string {
  const ranges = POSIX_CLASSES[posix]?.map(([first = "", last = ""]) => [first, last].map((it) => it.charCodeAt(0)));
  if (ranges === undefined) throw new UnsupportedConstruct(text);
  const selected = posixNegation === "^" ? complement(ranges) : ranges;
  return selected.map((range) => range.map(classCharacter).join("-")).join("");
}

function classCharacter(codePoint: number): string {
  const character = String.fromCodePoint(codePoint);
  return /[0-9A-Za-z]/.test(character) ? character : `\\u{${codePoint.toString(16)}}`;
}

/** Returns the ranges between ascending ranges of code points. */
function complement(ranges: readonly (readonly number[])[]): number[][] {
  const starts = [0, ...ranges.map(([, last = 0]) => last + 1)];
  const ends = [...ranges.map(([first = 0]) => first - 1), LAST_CODE_POINT];
  return starts.map((start, index) => [start, ends[index] ?? 0]).filter(([start = 0, end = 0]) => start <= end);
}
