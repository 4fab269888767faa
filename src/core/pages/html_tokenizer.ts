/** A token of a document. White space between tags is not a token. */
export interface Token {
  /**
   * `comment` includes doctypes, the byte order mark of UTF-8, and everything that browsers read as a comment. `utf16` is a
   * byte order mark of UTF-16 or UTF-32; what follows it cannot be read.
   */
  readonly kind: "text" | "startTag" | "endTag" | "comment" | "utf16";
  /** The name of a tag, in lower case. */
  readonly name: string;
  /** The text of a tag; empty for other tokens. */
  readonly tag: string;
  /** The offset of its first byte. */
  readonly start: number;
  /** The offset of the byte after it. */
  readonly end: number;
}

/** Elements whose content is text. In a browser that runs scripts, `<noscript>` is one of them (§13.2.6.4.4). */
const TEXT_ELEMENTS: ReadonlySet<string> = new Set([
  "iframe",
  "noembed",
  "noframes",
  "noscript",
  "plaintext",
  "script",
  "style",
  "textarea",
  "title",
  "xmp",
]);

/** Decodes each byte to one character. */
const decoder = new TextDecoder("latin1");

/** White space. `\s` would match more characters than HTML. */
const SPACE = String.raw`[\t\n\f\r ]`;

const NAME = String.raw`[^\t\n\f\r />][^\t\n\f\r />=]*`;
const VALUE = String
  .raw`"[^"]*"|'[^']*'|[^\t\n\f\r >"'][^\t\n\f\r >]*(?=[\t\n\f\r >])|(?=>)`;

/** Matches each attribute in only one way. Otherwise a long tag that does not end would take exponential time. */
const ATTRIBUTE = String
  .raw`${NAME}(?:${SPACE}*=${SPACE}*(?:${VALUE})|(?=[\t\n\f\r />])(?!${SPACE}*=))`;

const TAG = new RegExp(
  String
    .raw`^<(/?)([a-z][^\t\n\f\r />]*)(?=[\t\n\f\r />])(?:[\t\n\f\r /]|${ATTRIBUTE})*>`,
  "i",
);

/** A doctype ends at the first `>`, even within quotes. */
const COMMENT = /^<(?:!--(?:-?>|[^]*?--!?>)|(?:!(?!--)|\?|\/(?![a-z]))[^>]*>)/i;

const TEXT = /^(?:[^<]+|<(?![a-z/!?]|$))/i;

const NOT_SPACE = /[^\t\n\f\r ]|$/;

const BYTE_ORDER_MARK = /^\xef\xbb\xbf/;
const UTF_16_MARK = /^(?:\xfe\xff|\xff\xfe|\0\0\xfe\xff)/;
const PART_OF_MARK = /^(?:\xef\xbb?|\xfe|\xff|\0{1,2}|\0\0\xfe)?$/;

/** The length of an incomplete byte order mark. A longer incomplete token ends with a `>`. */
const MAX_UNDECIDED = 3;

/** Everything that may end the text of an element, or change how the text of a script is read. */
const IN_TEXT = /-->|<!(?=--)|<(\/?)([a-z]+)(?=[\t\n\f\r />])/gi;

/**
 * Tokenizes an HTML document in any encoding that extends ASCII (HTML standard §13.2.5, with scripting enabled, outside of
 * SVG and MathML).
 *
 * It replaces htmlparser2, which ends a script at a `</script>` that a browser reads as part of the script, reads up to
 * `]]>` where a browser stops at `>`, parses tags in `<noscript>`, and ends `</script a=">">` at the first `>`.
 */
export class HtmlTokenizer {
  /** The text that is not part of a complete token yet. */
  #rest = "";
  #start = 0;
  /** The name of the element whose text is being read, which only its own end tag ends; empty outside of such elements. */
  #textOf = "";

  /** The number of bytes read so far. */
  get end(): number {
    return this.#start + this.#rest.length;
  }

  /** The offset after the last complete token and the white space that follows it. */
  get start(): number {
    return this.#start;
  }

  /** Reads the next chunk, and returns the tokens that it completes. */
  *read(chunk: Uint8Array): Generator<Token, void> {
    const text = decoder.decode(chunk);
    const isIncomplete = this.#rest.length > MAX_UNDECIDED &&
      !text.includes(">");
    this.#rest += text;
    if (isIncomplete) return; // otherwise it would read a long token again with each small chunk
    let token = this.#next();
    while (token !== undefined) {
      yield token;
      this.#skip(token.end - this.#start);
      this.#textOf = textElementOf(token);
      token = this.#next();
    }
  }

  #next(): Token | undefined {
    if (this.#textOf === "plaintext") return undefined;
    if (this.#textOf !== "") {
      return this.#tag(endOfText(this.#rest, this.#textOf));
    }
    if (this.#start === 0) {
      if (PART_OF_MARK.test(this.#rest)) return undefined;
      const mark = this.#match(BYTE_ORDER_MARK, "comment") ??
        this.#match(UTF_16_MARK, "utf16");
      if (mark !== undefined) return mark;
    }
    this.#skip(this.#rest.search(NOT_SPACE));
    return this.#tag(0) ?? this.#match(TEXT, "text") ??
      this.#match(COMMENT, "comment");
  }

  /** Returns the token at the beginning of the rest, if the pattern matches there. */
  #match(pattern: RegExp, kind: Token["kind"]): Token | undefined {
    const match = pattern.exec(this.#rest);
    if (match === null) return undefined;
    const end = this.#start + match[0].length;
    return { kind, name: "", tag: "", start: this.#start, end };
  }

  /** Returns the tag at an index, if it is complete. */
  #tag(index: number | undefined): Token | undefined {
    if (index === undefined) return undefined;
    const [tag, slash, name = ""] = TAG.exec(this.#rest.slice(index)) ?? [];
    if (tag === undefined) return undefined;
    const start = this.#start + index;
    return {
      kind: slash ? "endTag" : "startTag",
      name: name.toLowerCase(),
      tag,
      start,
      end: start + tag.length,
    };
  }

  #skip(length: number): void {
    this.#rest = this.#rest.slice(length);
    this.#start += length;
  }
}

/** Returns the name of the element whose text begins after a token; empty if no text begins there. */
function textElementOf({ kind, name }: Token): string {
  return kind === "startTag" && TEXT_ELEMENTS.has(name) ? name : "";
}

/**
 * Returns the index of the end tag of an element with text, if it is there. In a script, `<!--` and `-->` enclose a part
 * in which the `</script>` after a further `<script>` is text.
 */
function endOfText(text: string, element: string): number | undefined {
  let depth: 0 | 1 | 2 = 0; // the states "script data", "script data escaped" and "script data double escaped"
  for (
    const { 0: found, 1: slash, 2: name = "", index } of text.matchAll(IN_TEXT)
  ) {
    const isOwn = name.toLowerCase() === element;
    if (isOwn && slash && depth < 2) return index;
    if (element !== "script") continue;
    if (found === "-->") depth = 0;
    else if (found === "<!") depth ||= 1;
    else if (isOwn && depth > 0) depth = slash ? 1 : 2;
  }
  return undefined;
}
