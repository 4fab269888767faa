/** A tag of a document. */
export interface Tag {
  /** The name, in lower case. */
  readonly name: string;
  /** The offset of `<`, in bytes. */
  readonly start: number;
  /** The offset of the byte after `>`. */
  readonly end: number;
}

/** Receives the tokens of a document. Comments, doctypes and white space are not reported. */
export interface MarkupListener {
  /** Called for every byte of text that is not white space. */
  text(): void;
  startTag(tag: Tag): void;
  endTag(tag: Tag): void;
  /** Called for `<![`: a CDATA section in SVG and MathML, a comment up to the next `>` anywhere else. */
  cdata(): void;
  /** Called for a UTF-16 byte order mark at the beginning. What follows is ignored. */
  utf16(): void;
}

/** The standard's states "script data", "script data escaped" and "script data double escaped". */
type Escape = "none" | "escaped" | "double escaped";

/** The data of the tokenizer's state machine. */
interface Context {
  readonly listener: MarkupListener;
  /** The offset of the current byte. */
  offset: number;
  /** The offset of the first byte that is neither white space nor part of a complete token. */
  start: number;
  /** The name of the current tag, or of the characters that may become one. */
  name: string;
  isEndTag: boolean;
  /** The element whose text is being read. Only its own end tag ends it. */
  rawTextOf: string;
  /** In a script: whether `<!--`, and after it a further `<script`, precede the current byte. */
  escape: Escape;
  /** How many consecutive `-` precede the current byte. A `>` after two of them resets `escape`. */
  dashes: number;
}

/**
 * A state. It consumes one byte and returns the next state. To leave a byte to another state, it calls that one (the
 * standard's "reconsume").
 */
type State = (context: Context, byte: number) => State;

const BANG = 0x21;
const QUOTE = 0x22;
const APOSTROPHE = 0x27;
const DASH = 0x2d;
const SLASH = 0x2f;
const LESS = 0x3c;
const EQUALS = 0x3d;
const GREATER = 0x3e;
const QUESTION = 0x3f;
const BRACKET = 0x5b;

/** Elements whose content is text. `<noscript>` is one in a browser that runs scripts (§13.2.6.4.4). */
export const TEXT_ELEMENTS: ReadonlySet<string> = new Set([
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

/**
 * Tokenizes an HTML document byte by byte, in any encoding that extends ASCII (HTML standard §13.2.5, with scripting
 * enabled, outside of SVG and MathML).
 *
 * htmlparser2 was not used because it ends a script at the `</script>` of a script in its comment, reads up to `]]>`
 * where a browser ends at `>`, parses tags in `<noscript>`, and ends `</script a=">">` at the first `>`.
 */
export class HtmlTokenizer {
  readonly #context: Context;
  #state: State = beginning;

  constructor(listener: MarkupListener) {
    this.#context = {
      listener,
      offset: 0,
      start: 0,
      name: "",
      isEndTag: false,
      rawTextOf: "",
      escape: "none",
      dashes: 0,
    };
  }

  /** The number of bytes that were read. */
  get offset(): number {
    return this.#context.offset;
  }

  /** The offset up to which everything is white space or a complete token. */
  get start(): number {
    return this.#context.start;
  }

  /** Reads the next byte. */
  read(byte: number): void {
    this.#state = this.#state(this.#context, byte);
    this.#context.offset += 1;
  }
}

function beginning(context: Context, byte: number): State {
  if (byte === 0xef) return byteOrderMark([0xbb, 0xbf], endOfToken);
  if (byte === 0xfe) return byteOrderMark([0xff], utf16);
  if (byte === 0xff) return byteOrderMark([0xfe], utf16);
  return data(context, byte);
}

/** Expects the rest of a byte order mark. If another byte follows, the previous ones were text. */
function byteOrderMark([expected, ...rest]: readonly number[], finished: (context: Context) => State): State {
  return (context, byte) => {
    if (byte !== expected) return data(reportText(context), byte);
    return rest.length === 0 ? finished(context) : byteOrderMark(rest, finished);
  };
}

function utf16({ listener }: Context): State {
  listener.utf16();
  return ignore;
}

function ignore(): State {
  return ignore;
}

function data(context: Context, byte: number): State {
  if (byte === LESS) return tagOpen;
  if (!isSpace(byte)) reportText(context);
  context.start = context.offset + 1;
  return data;
}

function reportText(context: Context): Context {
  context.listener.text();
  return context;
}

function tagOpen(context: Context, byte: number): State {
  if (isLetter(byte)) return beginTag(context, byte, false);
  if (byte === SLASH) return endTagOpen;
  if (byte === BANG) return markupDeclaration;
  if (byte === QUESTION) return bogusComment;
  return data(reportText(context), byte);
}

function endTagOpen(context: Context, byte: number): State {
  return isLetter(byte) ? beginTag(context, byte, true) : bogusComment(context, byte);
}

function beginTag(context: Context, byte: number, isEndTag: boolean): State {
  context.name = "";
  context.isEndTag = isEndTag;
  return tagName(context, byte);
}

function tagName(context: Context, byte: number): State {
  if (isNameEnd(byte)) return attributes(context, byte);
  addToName(context, byte);
  return tagName;
}

function attributes(context: Context, byte: number): State {
  if (byte === GREATER) return endOfTag(context);
  return isNameEnd(byte) ? attributes : attributeName; // a name may begin with a quote or with "="
}

function attributeName(context: Context, byte: number): State {
  if (isSpace(byte)) return afterAttributeName;
  if (byte === EQUALS) return beforeValue;
  return isNameEnd(byte) ? attributes(context, byte) : attributeName;
}

function afterAttributeName(context: Context, byte: number): State {
  if (isSpace(byte)) return afterAttributeName;
  return byte === EQUALS ? beforeValue : attributes(context, byte);
}

function beforeValue(context: Context, byte: number): State {
  if (isSpace(byte)) return beforeValue;
  if (byte === QUOTE) return doubleQuoted;
  return byte === APOSTROPHE ? singleQuoted : unquoted(context, byte);
}

function doubleQuoted(_context: Context, byte: number): State {
  return byte === QUOTE ? attributes : doubleQuoted;
}

function singleQuoted(_context: Context, byte: number): State {
  return byte === APOSTROPHE ? attributes : singleQuoted;
}

function unquoted(context: Context, byte: number): State {
  return isSpace(byte) || byte === GREATER ? attributes(context, byte) : unquoted;
}

function endOfTag(context: Context): State {
  const { listener, name, start, isEndTag } = context;
  const tag: Tag = { name, start, end: context.offset + 1 };
  context.start = tag.end;
  if (isEndTag) listener.endTag(tag);
  else listener.startTag(tag);
  return isEndTag || !TEXT_ELEMENTS.has(name) ? data : beginRawText(context);
}

function beginRawText(context: Context): State {
  if (context.name === "plaintext") return ignore;
  Object.assign(context, { rawTextOf: context.name, escape: "none", dashes: 0 });
  return rawText;
}

/** After `<!`. A doctype ends at the first `>`, even within quotes, so it needs no states of its own. */
function markupDeclaration(context: Context, byte: number): State {
  if (byte === DASH) return commentOpen;
  if (byte === BRACKET) context.listener.cdata();
  return bogusComment(context, byte);
}

function bogusComment(context: Context, byte: number): State {
  return byte === GREATER ? endOfToken(context) : bogusComment;
}

function commentOpen(context: Context, byte: number): State {
  return byte === DASH ? commentStart : bogusComment(context, byte);
}

function commentStart(context: Context, byte: number): State {
  if (byte === DASH) return commentStartDash;
  return byte === GREATER ? endOfToken(context) : comment;
}

function commentStartDash(context: Context, byte: number): State {
  return byte === GREATER ? endOfToken(context) : commentDash(context, byte);
}

function comment(_context: Context, byte: number): State {
  return byte === DASH ? commentDash : comment;
}

function commentDash(_context: Context, byte: number): State {
  return byte === DASH ? commentDashes : comment;
}

function commentDashes(context: Context, byte: number): State {
  if (byte === GREATER) return endOfToken(context);
  if (byte === BANG) return commentBang;
  return byte === DASH ? commentDashes : comment;
}

function commentBang(context: Context, byte: number): State {
  return byte === GREATER ? endOfToken(context) : comment(context, byte);
}

/** Ends a token that is not reported: a comment or a byte order mark. */
function endOfToken(context: Context): State {
  context.start = context.offset + 1;
  return data;
}

/** Text that only `</name` ends. In a script, `-->` ends an escaped part. */
function rawText(context: Context, byte: number): State {
  if (byte === GREATER && context.dashes >= 2) context.escape = "none";
  context.dashes = byte === DASH ? context.dashes + 1 : 0;
  if (byte !== LESS) return rawText;
  context.start = context.offset;
  return rawTextLess;
}

function rawTextLess(context: Context, byte: number): State {
  const { rawTextOf, escape } = context;
  context.name = "";
  if (byte === SLASH) return rawTextEndName;
  if (byte === BANG && rawTextOf === "script" && escape === "none") return scriptBang;
  return escape === "escaped" ? scriptInScript(context, byte) : rawText(context, byte);
}

function rawTextEndName(context: Context, byte: number): State {
  if (isLetter(byte)) {
    addToName(context, byte);
    return rawTextEndName;
  }
  if (!isNameEnd(byte) || context.name !== context.rawTextOf) return rawText(context, byte);
  if (context.escape !== "double escaped") {
    context.isEndTag = true;
    return attributes(context, byte);
  }
  context.escape = "escaped";
  return rawText(context, byte);
}

function scriptBang(context: Context, byte: number): State {
  return byte === DASH ? scriptBangDash : rawText(context, byte);
}

function scriptBangDash(context: Context, byte: number): State {
  if (byte !== DASH) return rawText(context, byte);
  context.escape = "escaped";
  context.dashes = 2; // so that "<!-->" is complete
  return rawText;
}

/** The name after `<` in an escaped part of a script: after `<script`, the next `</script>` is text. */
function scriptInScript(context: Context, byte: number): State {
  if (isLetter(byte)) {
    addToName(context, byte);
    return scriptInScript;
  }
  if (isNameEnd(byte) && context.name === "script") context.escape = "double escaped";
  return rawText(context, byte);
}

function addToName(context: Context, byte: number): void {
  context.name += String.fromCharCode(isLetter(byte) ? byte | 0x20 : byte);
}

function isLetter(byte: number): boolean {
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x7a;
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x09 || byte === 0x0d || byte === 0x0c;
}

function isNameEnd(byte: number): boolean {
  return isSpace(byte) || byte === SLASH || byte === GREATER;
}
