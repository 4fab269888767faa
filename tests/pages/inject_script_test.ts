import { assert, assertEquals, assertRejects, assertStrictEquals, assertThrows } from "@std/assert";
import { MAX_HEAD_BYTES } from "../../src/pages/insertion_point.ts";
import { injectScript, injectTagInto } from "../../src/pages/inject_script.ts";

const TAG = '<script id="__rep__">{}</script>';
const CHUNK_SIZES = [1, 2, 3, 7, Infinity];

/** What is promised, and a document in which `^` is where the tag is to go. */
type Case = readonly [promise: string, document: string];

const BEFORE_END_OF_HEAD: readonly Case[] = [
  [
    "puts the tag immediately before </head>",
    "<!doctype html><html><head><meta charset=utf-8>^</head><body></body></html>",
  ],
  ["keeps white space around </head>", "<head>\n  <title>a</title>\n^</head>\n<body>\n"],
  ["knows </HEAD >", "<HTML><HEAD><TITLE>a</TITLE>^</HEAD ><BODY></BODY></HTML>"],
  ["knows </hEaD with a line end before its >", "<head>^</hEaD\r\n></head>"],
  ["knows </head/>", "<head>^</head/>"],
  ["knows </head> with attributes", "<head>^</head a=\">\" b='>' c=d>"],
  ["knows <head> with attributes", "<head prefix=\"og: >\" a='</head>' b=c>^</head>"],
  ["knows a </head> whose <head> is left out", "<!doctype html><title>a</title>^</head><body>"],
  ["knows a </head> whose head is empty and <head> is left out", "<!doctype html><html>^</head><body>"],
  ["takes the first of several </head>", "<head>^</head></head><body></head>"],
  ["takes no notice of a second <head>", "<head><head>^</head>"],
  ["takes no notice of stray end tags", "<head></p></div></header></template></headers></script>^</head>"],
  ["takes no notice of </> and </ head>", "<head></></ head></%head>^</head>"],
  ["lets <base>, <basefont> and <bgsound> be in a head", "<head><base href=/><basefont><bgsound>^</head>"],
  ["leaves a </head> inside a comment alone", "<head><!-- </head> -->^</head>"],
  ["leaves a </head> alone in a comment with dashes", "<head><!-- - -- > --- </head> --->^</head>"],
  ["leaves a </head> alone in a comment within a comment", "<head><!-- <!-- </head> --!>^</head>"],
  ["leaves a </head> alone in a comment with --!-->", "<head><!-- --!-</head>-->^</head>"],
  ["lets <!--> be a whole comment", "<head><!-->^</head>-->"],
  ["lets <!---> be a whole comment", "<head><!--->^</head>-->"],
  ["lets a comment begin with a dash", "<head><!---a></head>-->^</head>"],
  ["leaves a </head> inside a conditional comment alone", "<head><!--[if IE]></head><body><![endif]-->^</head>"],
  ["reads what a downlevel-revealed comment reveals", "<head><![if !IE]><link href=a><![endif]>^</head>"],
  ["lets a comment like <!x end at the first >", "<head><!x '</head'><!->^</head>-->"],
  ["lets <![CDATA[ end at the first >", "<head><![CDATA[</head>^</head>]]>"],
  ["lets <?x end at the first >", "<head><?x </head>^</head>?>"],
  ["leaves a </head> inside <script> alone", "<head><script>'</head>'</script>^</head>"],
  ["leaves a </head> inside <SCRIPT> alone", "<head><SCRIPT>'</head>'</ScRiPt >^</head>"],
  ["leaves a </head> inside <script/> alone", "<head><script/></head></script>^</head>"],
  ["does not take </scripts> for </script>", "<head><script></scripts></head></script>^</head>"],
  ["does not take a less-than sign in a script for a tag", "<head><script>a<b;a<</script>^</head>"],
  ["does not take a slash in a script for an end tag", "<head><script>a/script></head></script>^</head>"],
  ["does not take <! in a script for a comment", "<head><script><!a></head></script>^</head>"],
  ["leaves a </head> in a comment of a script alone", "<head><script><!-- </head> --></script>^</head>"],
  ["ends a script within its comment", "<head><script><!-- <scripts> </script>^</head> -->"],
  ["ends a script within its unfinished <!-", "<head><script><!- <script></script>^</head>"],
  ["ends a script after <!-->", "<head><script><!--><script></script>^</head>"],
  ["ends a script after <!--->", "<head><script><!---><script></script>^</head>"],
  [
    "does not end a script with the </script> that is in its comment",
    "<head><script><!-- <script> </script> </head> --></script>^</head>",
  ],
  [
    "ends a script with the second </script> of its comment",
    "<head><script><!-- <script></script></head></script>^</head>-->",
  ],
  [
    "ends a script whose comment with a <script> is over",
    "<head><script><!-- <script> - --> <script> </head> </script>^</head>",
  ],
  ["leaves a </head> inside <style> alone", "<head><style>a:after{content:'</head>'}</style>^</head>"],
  ["does not know comments inside <style>", "<head><style><!-- </style>^</head> -->"],
  ["leaves a </head> inside <title> alone", "<head><title></head><!--</title>^</head>"],
  ["leaves a </head> inside <noscript> alone", "<head><noscript><img></head><body></noscript>^</head>"],
  ["does not know comments inside <noscript>", "<head><noscript><!-- </noscript>^</head> -->"],
  ["leaves a </head> inside <noframes> alone", "<head><noframes></head></noframes>^</head>"],
  ["ends <title> at an end tag with attributes", '<head><title></title a="></head>">^</head>'],
  ["leaves a </head> in double quotes alone", '<head><meta content="</head>">^</head>'],
  ["leaves a </head> in single quotes alone", "<head><meta content='</head>\"'>^</head>"],
  ["lets an unquoted value end at >", "<head><meta content=</head>^</head>"],
  ["lets a missing value end at >", "<head><meta content= >^</head>"],
  ["reads white space around =", '<head><meta content \n=\t"></head>">^</head>'],
  ["reads attributes without a value", "<head><meta a b  c='></head>'d>^</head>"],
  ["lets a slash be part of an unquoted value", "<head><link href=/a/>^</head>"],
  ["lets a quote be part of an attribute's name", '<head><meta a"b>^</head>">'],
  ["lets = be the beginning of an attribute's name", '<head><meta =">^</head>">'],
  ["reads attributes that touch each other", "<head><meta a='>'b=\"</head>\"/c/d='>'>^</head>"],
  ["leaves a </head> inside <template> alone", "<head><template></head><body><p></template>^</head>"],
  [
    "leaves a </head> inside a template in a template alone",
    "<head><template><template></template></head></template>^</head>",
  ],
  ["lets text be in a template", "<head><template>text</template>^</head>"],
  ...["iframe", "noembed", "textarea", "xmp"].map((name): Case => [
    `leaves a </template> inside <${name}> alone`,
    `<head><template><${name}></template></head></${name}></head></template>^</head>`,
  ]),
  ["does not take <template/> for a whole template", "<head><template/></head></template>^</head>"],
  [
    "leaves a </head> inside an <svg> of a template alone",
    "<head><template><svg><path d='M0'/></head></svg></template>^</head>",
  ],
  [
    "reads a template after one with an <svg>",
    "<head><template><svg></template><template><title></head></title></template>^</head>",
  ],
  ["reads a doctype with quotes", "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML\" '</head'><head>^</head>"],
  ["keeps a byte order mark", "\uFEFF<!doctype html><head>^</head>"],
  ["keeps text in UTF-8", "<head><title>é 日本 🦕</title><meta content='🦕'>^</head>é 日本 🦕"],
];

const AFTER_HEAD: readonly Case[] = [
  ["puts the tag after <head> if the document has no </head>", "<!doctype html><head>^<title>a</title>"],
  ["puts the tag after <head> if <body> ends the head", '<head lang="a>b">^<title>a</title><body></head></body>'],
  ["puts the tag after the first of two <head>", "<head>^<head><body>"],
  ["puts the tag after <head> if text ends the head", "<head>^\n<title>a</title> text </head>"],
  ["puts the tag after <head> if < and a digit ends the head", "<head>^<3</head>"],
  ["does not take <header> for <head>", "<head>^<header></head></header>"],
  ["does not take </heading> for </head>", "<head>^</heading><h1></head>"],
  ["puts the tag after <head> if <svg> ends the head", "<head>^<svg></head></svg></head>"],
  ["puts the tag after <head> if <math> ends the head", "<head>^<math></head></math></head>"],
  ["puts the tag after <head> if <textarea> ends the head", "<head>^<textarea></head></textarea></head>"],
  ["puts the tag after <head> if <plaintext> ends the head", "<head>^<plaintext></head>"],
  ["puts the tag after <head> if </body> ends the head", "<head>^</body></head>"],
  ["puts the tag after <head> if </html> ends the head", "<head>^</html></head>"],
  ["puts the tag after <head> if </br> ends the head", "<head>^</br></head>"],
  ["puts the tag after <head> if a script does not end", "<head>^<script></head><body>"],
  ["puts the tag after <head> if a comment in a script hides its end", "<head>^<script><!--<script></script></head>"],
  ["puts the tag after <head> if a comment does not end", "<head>^<!-- </head>"],
  ["puts the tag after <head> if an attribute does not end", "<head>^<meta content='</head>"],
  ["puts the tag after <head> if a template does not end", "<head>^<template></head><body>"],
  ["puts the tag after <head> if </head does not end", "<head>^</head"],
  [
    "puts the tag after <head> if a template has <plaintext>",
    "<head>^<template><plaintext></plaintext></template></head>",
  ],
  [
    "puts the tag after <head> if an <svg> in a template has a <style>",
    [
      "<head>^<template><svg><style><!--</style></template></head>",
      "--></style></svg></template></head>",
    ].join(""),
  ],
  [
    "puts the tag after <head> if an <svg> in a template has CDATA",
    [
      "<head>^<template><svg><![CDATA[></template></head>",
      "]]></svg></template></head>",
    ].join(""),
  ],
  [
    "puts the tag after <head> if an <svg> in a template has a <template>",
    [
      "<head>^<template><svg><template></svg></template>",
      "</br><p></template></head>",
    ].join(""),
  ],
  [
    "puts the tag after <head> if a <select> in a template has a <title>",
    [
      "<head>^<template><select><title><!--</title></template></head>",
      "--></select></template></head>",
    ].join(""),
  ],
];

const FIRST: readonly Case[] = [
  ["puts the tag into an empty document", "^"],
  ["puts the tag before text", "^text </head>"],
  ["puts the tag before a body", "^<body><p>a</p></body>"],
  ["puts the tag before a <thead>", "^<thead></head>"],
  [
    "puts the tag before a <html> without a head",
    "<!doctype html>\n^<html lang=en>\n<title>a</title><body></body></html>",
  ],
  ["puts the tag before a <title> without a head", "<!doctype html>^<title>a</title><p>b"],
  ["puts the tag before a stray end tag", "^</p><p></head>"],
  ["puts the tag behind white space", " \t\r\n\f^<p>a"],
  ["puts the tag behind comments and the doctype", "<!-- a -->\n<!doctype html>\n<!-- </head> -->\n^<p>a"],
  ["puts the tag behind an XML declaration", '<?xml version="1.0"?><!doctype html>^<p>a'],
  ["puts the tag behind a doctype that is all there is", "<!doctype html>^"],
  ["puts the tag behind a byte order mark", "\uFEFF^<p>a"],
  ["puts the tag behind a byte order mark and the doctype", "\uFEFF<!doctype html>^<p>a"],
  ["does not skip a second byte order mark", "\uFEFF^\uFEFF<!doctype html><head></head>"],
  ["puts the tag before a comment that does not end", "<!doctype html>^<!-- <head></head>"],
  ["puts the tag before a doctype that does not end", "<!-- a -->^<!doctype html"],
  ["puts the tag before a <head> that does not end", "<!doctype html>^<head a='></head>"],
  ["puts the tag before a < at the end", "<!doctype html>^<"],
];

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function text(...chunks: readonly Uint8Array[]): string {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
  return chunks.map((chunk) => decoder.decode(chunk, { stream: true })).join("") + decoder.decode();
}

function chunksOf(document: Uint8Array, size: () => number): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (let offset = 0; offset < document.length;) {
    const chunk = document.subarray(offset, offset + size());
    chunks.push(chunk);
    offset += chunk.length;
  }
  return chunks;
}

function injected(chunks: readonly Uint8Array[], tag = bytes(TAG)): Promise<Uint8Array[]> {
  return Array.fromAsync(injectScript(ReadableStream.from(chunks), tag));
}

for (const [promise, marked] of [...BEFORE_END_OF_HEAD, ...AFTER_HEAD, ...FIRST]) {
  Deno.test(`injectScript() ${promise}`, async () => {
    const document = bytes(marked.replace("^", ""));
    const expected = marked.replace("^", TAG);
    for (const size of CHUNK_SIZES) {
      const chunks = await injected(chunksOf(document, () => size));
      assertEquals(text(...chunks), expected, `in chunks of ${size}`);
    }
    assertEquals(text(injectTagInto(document, bytes(TAG))), expected);
  });
}

const NO_UTF8: readonly (readonly [promise: string, document: readonly number[], expected: readonly number[]])[] = [
  ["leaves a document in UTF-16, big-endian, as it is", [0xfe, 0xff, 0, 0x3c], [0xfe, 0xff, 0, 0x3c]],
  ["leaves a document in UTF-16, little-endian, as it is", [0xff, 0xfe, 0x3c, 0], [0xff, 0xfe, 0x3c, 0]],
  ["takes 0xFF without 0xFE for text", [0xff, 0x20, 0xfe], [0x2a, 0xff, 0x20, 0xfe]],
  ["takes 0xFE without 0xFF for text", [0xfe, 0xfe, 0xff], [0x2a, 0xfe, 0xfe, 0xff]],
  ["takes a part of a byte order mark for text", [0xef, 0xbb, 0x20], [0x2a, 0xef, 0xbb, 0x20]],
  ["takes the first byte of a byte order mark for text", [0xef], [0x2a, 0xef]],
  ["takes a byte order mark after white space for text", [0x20, 0xef, 0xbb, 0xbf], [0x20, 0x2a, 0xef, 0xbb, 0xbf]],
  ["keeps bytes that are no UTF-8", [0x3c, 0x21, 0xff, 0x3e, 0x80], [0x3c, 0x21, 0xff, 0x3e, 0x2a, 0x80]],
];

for (const [promise, document, expected] of NO_UTF8) {
  Deno.test(`injectScript() ${promise}`, async () => {
    for (const size of CHUNK_SIZES) {
      const chunks = await injected(chunksOf(Uint8Array.from(document), () => size), Uint8Array.of(0x2a));
      assertEquals(chunks.flatMap((chunk) => [...chunk]), expected, `in chunks of ${size}`);
    }
    assertEquals([...injectTagInto(Uint8Array.from(document), Uint8Array.of(0x2a))], expected);
  });
}

Deno.test("injectScript() takes white space, empty chunks and an empty tag", async () => {
  const chunks = [bytes(""), bytes(" <head>"), bytes(""), bytes(" </head>"), bytes(""), bytes("a")];
  assertEquals(text(...await injected(chunks, bytes(""))), " <head> </head>a");
});

interface LongCase {
  readonly before: string;
  /** How many bytes of a comment come after `before`. */
  readonly length: number;
  readonly after: string;
}

/** A document with a long comment, as the one piece that `^` does not have to be looked for in. */
function long({ before, length, after }: LongCase): string {
  return `${before}<!--${"-".repeat(length - 7)}-->${after}`;
}

const END_OF_HEAD = "</head>";
const LIMITS: readonly (readonly [promise: string, LongCase])[] = [
  [
    "finds a </head> that ends 64 KiB after <head>",
    { before: "<head>", length: MAX_HEAD_BYTES - END_OF_HEAD.length, after: "^</head>" },
  ],
  [
    "puts the tag after <head> if </head> ends a byte later than that",
    { before: "<head>^", length: MAX_HEAD_BYTES - END_OF_HEAD.length + 1, after: "</head>" },
  ],
  [
    "finds a <head> within 64 KiB of the first tag",
    { before: "<html>", length: MAX_HEAD_BYTES - "<html><head>".length, after: "<head>^<body>" },
  ],
  [
    "puts the tag first if <head> ends a byte later than that",
    { before: "^<html>", length: MAX_HEAD_BYTES - "<html><head>".length + 1, after: "<head><body>" },
  ],
  [
    "goes behind comments of 64 KiB",
    { before: "<!doctype html>", length: MAX_HEAD_BYTES, after: "<head>^<body>" },
  ],
  [
    "puts the tag before a comment that is a byte longer than that",
    { before: "<!doctype html>^", length: MAX_HEAD_BYTES + 1, after: "<head></head>" },
  ],
];

for (const [promise, parts] of LIMITS) {
  Deno.test(`injectScript() ${promise}`, async () => {
    const marked = long(parts);
    const document = bytes(marked.replace("^", ""));
    for (const size of [7, 4096, 65_536, Infinity]) {
      const chunks = await injected(chunksOf(document, () => size));
      assert(text(...chunks) === marked.replace("^", TAG), `in chunks of ${size}`); // too long for a difference
    }
  });
}

/** A body that gives what it is asked for and writes down that it was asked. */
function recorded(chunks: readonly string[], log: string[]): ReadableStream<Uint8Array> {
  const rest = [...chunks];
  return new ReadableStream<Uint8Array>({
    pull(controller) {
      const chunk = rest.shift();
      log.push(`take ${chunk ?? "the end"}`);
      if (chunk === undefined) controller.close();
      else controller.enqueue(bytes(chunk));
    },
  }, { highWaterMark: 0 });
}

Deno.test("injectScript() takes no more than it is asked for, and holds no more than it needs", async () => {
  const log: string[] = [];
  const parts = ["<!-- a -->", " <!doctype", " html>", "<html>", "<head>", "<title>a", "</title></he", "ad>b", "c"];
  const stream = injectScript(recorded(parts, log), bytes("TAG"));
  for await (const chunk of stream) log.push(`give ${text(chunk)}`);
  assertEquals(log, [
    "take <!-- a -->",
    "give <!-- a -->",
    "take  <!doctype",
    "give  ",
    "take  html>",
    "give <!doctype",
    "give  html>",
    "take <html>",
    "take <head>",
    "give <html>",
    "give <head>",
    "take <title>a",
    "take </title></he",
    "take ad>b",
    "give <title>a",
    "give </title>",
    "give TAG",
    "give </he",
    "give ad>b",
    "take c",
    "give c",
    "take the end",
  ]);
});

Deno.test("injectScript() takes nothing while nobody reads", async () => {
  const log: string[] = [];
  const stream = injectScript(recorded(["<head></head>"], log), bytes(TAG));
  assertEquals(text(...await injected([bytes("<head></head>")])), `<head>${TAG}</head>`); // time enough to take one
  assertEquals(log, []);
  await stream.cancel();
});

Deno.test("injectScript() streams on when a head is too long, without waiting for its end", async () => {
  const log: string[] = [];
  const styles = "a{}".repeat(MAX_HEAD_BYTES / 2);
  const reader = injectScript(recorded(["<head>", "<style>", styles, "</style>"], log), bytes(TAG)).getReader();
  const given: string[] = [];
  for (let i = 0; i < 4; i++) given.push(text((await reader.read()).value ?? bytes("the end")));
  assert(given.join("") === `<head>${TAG}<style>${styles}`);
  assertEquals(log, ["take <head>", "take <style>", `take ${styles}`]);
  await reader.cancel();
});

Deno.test("injectScript() passes chunks through without copying them", async () => {
  const chunks = ["<!doctype html><head>", "<title>a</title>", "</head>", "<body>", "</body>"].map(bytes);
  const given = await injected(chunks);
  assertEquals(given.length, chunks.length + 1);
  given.splice(2, 1);
  given.forEach((chunk, i) => assertStrictEquals(chunk, chunks[i]));
});

Deno.test("injectScript() divides a chunk without copying it", async () => {
  const document = bytes("<head></head>");
  const given = await injected([document]);
  assertEquals(given.map((chunk) => text(chunk)), ["<head>", TAG, "</head>"]);
  assertStrictEquals(given[0]?.buffer, document.buffer);
  assertStrictEquals(given[2]?.buffer, document.buffer);
});

Deno.test("injectScript() keeps the tag's memory, whatever a reader does with the chunks", async () => {
  const tag = bytes(TAG);
  for (const chunk of await injected([bytes("a")], tag)) {
    structuredClone(chunk, { transfer: [chunk.buffer as ArrayBuffer] });
  }
  assertEquals(text(...await injected([bytes("a")], tag)), `${TAG}a`);
});

Deno.test("injectScript() gives a body that a Response takes", async () => {
  const body = new Blob(["<head></head>"]).stream();
  assertEquals(await new Response(injectScript(body, bytes(TAG))).text(), `<head>${TAG}</head>`);
});

Deno.test("injectScript() refuses a body that is locked", async () => {
  const body = new Blob(["<head></head>"]).stream();
  const reader = body.getReader();
  assertThrows(() => injectScript(body, bytes(TAG)), TypeError);
  await reader.cancel();
});

/** A body that gives the chunks and then nothing more, without an end. */
function hanging(chunks: readonly string[], cancel: (reason: unknown) => void): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    start: (controller) => chunks.forEach((chunk) => controller.enqueue(bytes(chunk))),
    cancel,
  });
}

for (const [where, chunk] of [["before", "<head>"], ["after", "<head></head>"]] as const) {
  Deno.test(`injectScript() cancels the body when it is cancelled ${where} the place`, async () => {
    const reasons: unknown[] = [];
    const reader = injectScript(hanging([chunk], (reason) => reasons.push(reason)), bytes(TAG)).getReader();
    assertEquals(text((await reader.read()).value ?? bytes("")), "<head>");
    await reader.cancel("gone");
    assertEquals(reasons, ["gone"]);
  });

  Deno.test(`injectScript() hands on an error of the body ${where} the place`, async () => {
    const failure = new Error("upstream");
    async function* failing() {
      yield await Promise.resolve(bytes(chunk));
      throw failure;
    }
    const error = await assertRejects(() => Array.fromAsync(injectScript(ReadableStream.from(failing()), bytes(TAG))));
    assertStrictEquals(error, failure);
  });
}

Deno.test("injectScript() can be cancelled while it waits for the body", async () => {
  const reasons: unknown[] = [];
  const reader = injectScript(hanging(["<html>"], (reason) => reasons.push(reason)), bytes(TAG)).getReader();
  const reading = reader.read();
  await reader.cancel("gone");
  assertEquals((await reading).done, true);
  assertEquals(reasons, ["gone"]);
});

Deno.test("injectScript() hands on what a body says to being cancelled", async () => {
  const failure = new Error("cannot cancel");
  const stream = injectScript(hanging([], () => Promise.reject(failure)), bytes(TAG));
  assertStrictEquals(await assertRejects(() => stream.cancel()), failure);
});

Deno.test("injectTagInto() leaves the document and the tag alone, and gives its own memory", () => {
  const document = bytes("<head></head>");
  const tag = bytes(TAG);
  const result = injectTagInto(document, tag);
  result.fill(0);
  assertEquals([text(document), text(tag)], ["<head></head>", TAG]);
});

/** A random number generator (mulberry32) that a seed makes repeatable; gives numbers from 0 to below `limit`. */
function generator(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor(((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32 * limit);
  };
}

type Random = ReturnType<typeof generator>;

function pick<T>(random: Random, choices: readonly T[]): T {
  return choices[random(choices.length)] as T; // no list here is empty
}

function series(random: Random, most: number, choices: readonly string[]): string {
  return Array.from({ length: random(most + 1) }, () => pick(random, choices)).join("");
}

// deno-fmt-ignore
const SHARDS = [
  "<head>", "</head>", "<HEAD a='>'>", "</head\n>", '</head a=">">', "<header>", "<head", "</head", "<html>", "<body>",
  "</body>", "</br>", "<title>", "</title>", "<textarea>", "</textarea>", "<script>", "</script>", "<script", "</script",
  "<style>", "</style>", "<template>", "</template>", "<noscript>", "</noscript>", "<svg>", "</svg>", "<math>",
  "<select>", "<plaintext>", "<!--", "-->", "--!>", "<!-->", "<!--->", "<!", "<!-", "<![CDATA[", "]]>", "<?", "</", "</>",
  "<", ">", "/", "=", '"', "'", "-", " ", "\n", "\0", "a", "é", "日", "🦕", "\uFEFF", "<meta a=b>", "<!doctype html>",
];

const LEAD = [" ", "\n", "<!-- </head> -->", "<!doctype html>", "<!--[if IE]><html><head></head><![endif]-->", "<?x?>"];
const HTML = ["", "<html>", "<HTML lang='</head>'>", "<html a=b/>\n"];
const HEAD = ["<head>", "<HEAD>", "<head\na='</head>' b=\"><head>\">", "<hEaD/>"];
const IN_HEAD = [
  ...LEAD,
  "<title></head>&amp;é</title>",
  "<script>'</head>'</script>",
  "<script><!--<script></script></head>--></script>",
  "<STYLE></head></STYLE>",
  "<template><p></head>🦕<template></template></p></template>",
  "<noscript></head></noscript>",
  "<meta a='</head>' b=\"</head>\" c=</head>",
  "<link href=/日本/>",
  "</p>",
];
const END = ["</head>", "</HEAD >", "</head\n>", '</head a="</head>">', "</head/>"];
const BODY = ["<body>", "<p>", "text", "</body>", "<svg>", "<header>", "<textarea></head></textarea>"];

/** A document whose `^` is where the tag has to go, together with what comes after it. */
function knownDocument(random: Random): string {
  const lead = pick(random, ["", "\uFEFF"]) + series(random, 4, LEAD);
  const content = () => series(random, 6, IN_HEAD);
  const rest = series(random, 9, SHARDS);
  const html = pick(random, HTML);
  switch (random(3)) {
    case 0:
      return `${lead}${html}${pick(random, HEAD)}${content()}^${pick(random, END)}${rest}`;
    case 1:
      return `${lead}${html}${pick(random, HEAD)}^${content()}${pick(random, BODY)}${rest}`;
    default:
      return `${lead}^${pick(random, BODY)}${rest}`;
  }
}

const SEED = 20_261_121;
const DOCUMENTS = 3_000;

Deno.test(`injectScript() finds the place in documents made up by chance (seed ${SEED})`, async () => {
  for (let seed = SEED; seed < SEED + DOCUMENTS; seed++) {
    const random = generator(seed);
    const marked = knownDocument(random);
    const document = bytes(marked.replace("^", ""));
    const chunks = await injected(chunksOf(document, () => 1 + random(9)));
    assertEquals(text(...chunks), marked.replace("^", TAG), `seed ${seed}`);
  }
});

Deno.test(`injectScript() adds the tag and changes nothing, in any document and any chunks (seed ${SEED})`, async () => {
  for (let seed = SEED; seed < SEED + DOCUMENTS; seed++) {
    const random = generator(seed);
    const original = series(random, 30, SHARDS);
    const given = text(...await injected(chunksOf(bytes(original), () => 1 + random(12))));
    assertEquals(given.split(TAG).length, 2, `seed ${seed}`);
    assertEquals(given.replace(TAG, ""), original, `seed ${seed}`);
    assertEquals(given, text(injectTagInto(bytes(original), bytes(TAG))), `seed ${seed}`);
  }
});
