/** A tag as it stands in a document. */
export interface Tag {
  /** Its name, in lower case. */
  readonly name: string;
  /** The offset of its `<`, in bytes. */
  readonly start: number;
  /** The offset of the byte after its `>`. */
  readonly end: number;
}

/** Who is told what a document consists of. Comments, doctypes and white space are not worth a call. */
export interface MarkupListener {
  /** Called for every byte of text that is not white space. */
  text(): void;
  startTag(tag: Tag): void;
  endTag(tag: Tag): void;
  /** Called for `<![`: a CDATA section in SVG and MathML, a comment up to the next `>` anywhere else. */
  cdata(): void;
  /** Called for a UTF-16 byte order mark at the beginning; nothing after it is read. */
  utf16(): void;
}

/**
 * What a step of the tokenizer knows. A step is given one byte and returns the step for the next one; one that has
 * looked at a byte which is not its own hands it on by calling another step (the standard's "reconsume").
 */
interface Reading {
  readonly listener: MarkupListener;
  /** Of the byte at hand. */
  offset: number;
  /** Of the first byte that is not known to be white space or part of a finished token. */
  start: number;
  /** Of the tag at hand, or of what may become one. */
  name: string;
  isEndTag: boolean;
  /** The element whose text is being read, for which only its own end tag is a tag. */
  rawTextOf: string;
  /** In a script: 1 after `<!--`, 2 after a further `<script` (script data escaped, and double escaped). */
  escape: 0 | 1 | 2;
  /** How many `-` in a row were just read as text: with a `>` after two of them, `escape` is 0 again. */
  dashes: number;
}

type Step = (reading: Reading, byte: number) => Step;

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

/** Elements whose content is text; `<noscript>` is one of them in a browser that runs scripts (§13.2.6.4.4). */
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
 * Takes an HTML document apart, byte by byte, in any encoding that extends ASCII (HTML standard §13.2.5, with scripting
 * enabled and outside of SVG and MathML).
 *
 * It is not htmlparser2's because that one lets a script end at the `</script>` of a script commented out within it,
 * reads on to `]]>` where a browser ends at `>`, reads tags in `<noscript>`, and ends `</script a=">">` at the first `>`.
 */
export class HtmlTokenizer {
  readonly #reading: Reading;
  #step: Step = beginning;

  constructor(listener: MarkupListener) {
    this.#reading = {
      listener,
      offset: 0,
      start: 0,
      name: "",
      isEndTag: false,
      rawTextOf: "",
      escape: 0,
      dashes: 0,
    };
  }

  /** How many bytes were read. */
  get offset(): number {
    return this.#reading.offset;
  }

  /** The offset up to which everything is white space or a finished token: not within a comment, for example. */
  get start(): number {
    return this.#reading.start;
  }

  /** Reads the next byte. */
  read(byte: number): void {
    this.#step = this.#step(this.#reading, byte);
    this.#reading.offset += 1;
  }
}

function beginning(reading: Reading, byte: number): Step {
  if (byte === 0xef) return byteOrderMark([0xbb, 0xbf], endOfToken);
  if (byte === 0xfe) return byteOrderMark([0xff], utf16);
  if (byte === 0xff) return byteOrderMark([0xfe], utf16);
  return data(reading, byte);
}

/** Expects the rest of a byte order mark; if something else comes, what was read was text. */
function byteOrderMark([expected, ...rest]: readonly number[], finished: (reading: Reading) => Step): Step {
  return (reading, byte) => {
    if (byte !== expected) return data(textAtHand(reading), byte);
    return rest.length === 0 ? finished(reading) : byteOrderMark(rest, finished);
  };
}

function utf16({ listener }: Reading): Step {
  listener.utf16();
  return nothingMore;
}

function nothingMore(): Step {
  return nothingMore;
}

function data(reading: Reading, byte: number): Step {
  if (byte === LESS) return tagOpen;
  if (!isSpace(byte)) textAtHand(reading);
  reading.start = reading.offset + 1;
  return data;
}

function textAtHand(reading: Reading): Reading {
  reading.listener.text();
  return reading;
}

function tagOpen(reading: Reading, byte: number): Step {
  if (isLetter(byte)) return beginTag(reading, byte, false);
  if (byte === SLASH) return endTagOpen;
  if (byte === BANG) return markupDeclaration;
  if (byte === QUESTION) return bogusComment;
  return data(textAtHand(reading), byte);
}

function endTagOpen(reading: Reading, byte: number): Step {
  return isLetter(byte) ? beginTag(reading, byte, true) : bogusComment(reading, byte);
}

function beginTag(reading: Reading, byte: number, isEndTag: boolean): Step {
  reading.name = "";
  reading.isEndTag = isEndTag;
  return tagName(reading, byte);
}

function tagName(reading: Reading, byte: number): Step {
  if (endsName(byte)) return attributes(reading, byte);
  addToName(reading, byte);
  return tagName;
}

function attributes(reading: Reading, byte: number): Step {
  if (byte === GREATER) return endOfTag(reading);
  return endsName(byte) ? attributes : attributeName; // a name may well begin with a quote or with "="
}

function attributeName(reading: Reading, byte: number): Step {
  if (isSpace(byte)) return afterAttributeName;
  if (byte === EQUALS) return beforeValue;
  return endsName(byte) ? attributes(reading, byte) : attributeName;
}

function afterAttributeName(reading: Reading, byte: number): Step {
  if (isSpace(byte)) return afterAttributeName;
  return byte === EQUALS ? beforeValue : attributes(reading, byte);
}

function beforeValue(reading: Reading, byte: number): Step {
  if (isSpace(byte)) return beforeValue;
  if (byte === QUOTE) return doubleQuoted;
  return byte === APOSTROPHE ? singleQuoted : unquoted(reading, byte);
}

function doubleQuoted(_reading: Reading, byte: number): Step {
  return byte === QUOTE ? attributes : doubleQuoted;
}

function singleQuoted(_reading: Reading, byte: number): Step {
  return byte === APOSTROPHE ? attributes : singleQuoted;
}

function unquoted(reading: Reading, byte: number): Step {
  return isSpace(byte) || byte === GREATER ? attributes(reading, byte) : unquoted;
}

function endOfTag(reading: Reading): Step {
  const { listener, name, start, isEndTag } = reading;
  const tag: Tag = { name, start, end: reading.offset + 1 };
  reading.start = tag.end;
  if (isEndTag) listener.endTag(tag);
  else listener.startTag(tag);
  return isEndTag || !TEXT_ELEMENTS.has(name) ? data : beginRawText(reading);
}

function beginRawText(reading: Reading): Step {
  if (reading.name === "plaintext") return nothingMore;
  Object.assign(reading, { rawTextOf: reading.name, escape: 0, dashes: 0 });
  return rawText;
}

/** After `<!`. A doctype ends at the first `>`, within its quotes too, and so needs no steps of its own. */
function markupDeclaration(reading: Reading, byte: number): Step {
  if (byte === DASH) return commentOpen;
  if (byte === BRACKET) reading.listener.cdata();
  return bogusComment(reading, byte);
}

function bogusComment(reading: Reading, byte: number): Step {
  return byte === GREATER ? endOfToken(reading) : bogusComment;
}

function commentOpen(reading: Reading, byte: number): Step {
  return byte === DASH ? commentStart : bogusComment(reading, byte);
}

function commentStart(reading: Reading, byte: number): Step {
  if (byte === DASH) return commentStartDash;
  return byte === GREATER ? endOfToken(reading) : comment;
}

function commentStartDash(reading: Reading, byte: number): Step {
  return byte === GREATER ? endOfToken(reading) : commentDash(reading, byte);
}

function comment(_reading: Reading, byte: number): Step {
  return byte === DASH ? commentDash : comment;
}

function commentDash(_reading: Reading, byte: number): Step {
  return byte === DASH ? commentDashes : comment;
}

function commentDashes(reading: Reading, byte: number): Step {
  if (byte === GREATER) return endOfToken(reading);
  if (byte === BANG) return commentBang;
  return byte === DASH ? commentDashes : comment;
}

function commentBang(reading: Reading, byte: number): Step {
  return byte === GREATER ? endOfToken(reading) : comment(reading, byte);
}

/** After what calls for nothing but to be over: a comment, a byte order mark. */
function endOfToken(reading: Reading): Step {
  reading.start = reading.offset + 1;
  return data;
}

/** Text in which only `</name` ends something; in an escaped part of a script `-->` ends that part. */
function rawText(reading: Reading, byte: number): Step {
  if (byte === GREATER && reading.dashes >= 2) reading.escape = 0;
  reading.dashes = byte === DASH ? reading.dashes + 1 : 0;
  if (byte !== LESS) return rawText;
  reading.start = reading.offset;
  return rawTextLess;
}

function rawTextLess(reading: Reading, byte: number): Step {
  const { rawTextOf, escape } = reading;
  reading.name = "";
  if (byte === SLASH) return rawTextEndName;
  if (byte === BANG && rawTextOf === "script" && escape === 0) return scriptBang;
  return escape === 1 ? scriptInScript(reading, byte) : rawText(reading, byte);
}

function rawTextEndName(reading: Reading, byte: number): Step {
  if (isLetter(byte)) {
    addToName(reading, byte);
    return rawTextEndName;
  }
  if (!endsName(byte) || reading.name !== reading.rawTextOf) return rawText(reading, byte);
  if (reading.escape < 2) {
    reading.isEndTag = true;
    return attributes(reading, byte);
  }
  reading.escape = 1;
  return rawText(reading, byte);
}

function scriptBang(reading: Reading, byte: number): Step {
  return byte === DASH ? scriptBangDash : rawText(reading, byte);
}

function scriptBangDash(reading: Reading, byte: number): Step {
  if (byte !== DASH) return rawText(reading, byte);
  reading.escape = 1;
  reading.dashes = 2; // so that "<!-->" is over at once
  return rawText;
}

/** The name after a `<` in an escaped part of a script: `<script` makes the next `</script>` part of the text. */
function scriptInScript(reading: Reading, byte: number): Step {
  if (isLetter(byte)) {
    addToName(reading, byte);
    return scriptInScript;
  }
  if (endsName(byte) && reading.name === "script") reading.escape = 2;
  return rawText(reading, byte);
}

function addToName(reading: Reading, byte: number): void {
  reading.name += String.fromCharCode(isLetter(byte) ? byte | 0x20 : byte);
}

function isLetter(byte: number): boolean {
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x7a;
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x09 || byte === 0x0d || byte === 0x0c;
}

function endsName(byte: number): boolean {
  return isSpace(byte) || byte === SLASH || byte === GREATER;
}
