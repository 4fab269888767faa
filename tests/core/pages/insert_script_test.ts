import {
  assert,
  assertEquals,
  assertRejects,
  assertStrictEquals,
  assertThrows,
} from "@std/assert";
import {
  injectScript,
  insertScript,
  MAX_HEAD_BYTES,
} from "../../../src/core/pages/insert_script.ts";
import { seededRandom } from "../../../tools/seeded_random.ts";
import { assertInserted } from "./_html_oracle.ts";

const SCRIPT = '<script id="__rep__">{}</script>';
const CHUNK_SIZES = [1, 2, 3, 7, Infinity];

/** What is tested, and a document in which `^` marks the insertion point. */
type Case = readonly [behavior: string, document: string];

const BEFORE_END_OF_HEAD: readonly Case[] = [
  [
    "inserts the script immediately before </head>",
    "<!doctype html><html><head><meta charset=utf-8>^</head><body></body></html>",
  ],
  [
    "keeps white space around </head>",
    "<head>\n  <title>a</title>\n^</head>\n<body>\n",
  ],
  [
    "recognizes </HEAD >",
    "<HTML><HEAD><TITLE>a</TITLE>^</HEAD ><BODY></BODY></HTML>",
  ],
  ["recognizes </hEaD with a line break before >", "<head>^</hEaD\r\n></head>"],
  ["recognizes </head/>", "<head>^</head/>"],
  ["recognizes </head> with attributes", "<head>^</head a=\">\" b='>' c=d>"],
  [
    "recognizes <head> with attributes",
    "<head prefix=\"og: >\" a='</head>' b=c>^</head>",
  ],
  [
    "recognizes </head> without <head>",
    "<!doctype html><title>a</title>^</head><body>",
  ],
  [
    "recognizes </head> of an empty head without <head>",
    "<!doctype html><html>^</head><body>",
  ],
  ["uses the first of several </head>", "<head>^</head></head><body></head>"],
  ["ignores a second <head>", "<head><head>^</head>"],
  [
    "ignores stray end tags",
    "<head></p></div></header></template></headers></script>^</head>",
  ],
  ["ignores </> and </ head>", "<head></></ head></%head>^</head>"],
  [
    "allows <base>, <basefont> and <bgsound> in a head",
    "<head><base href=/><basefont><bgsound>^</head>",
  ],
  ["ignores </head> in a comment", "<head><!-- </head> -->^</head>"],
  [
    "ignores </head> in a comment with dashes",
    "<head><!-- - -- > --- </head> --->^</head>",
  ],
  [
    "ignores </head> in a comment that contains <!--",
    "<head><!-- <!-- </head> --!>^</head>",
  ],
  [
    "ignores </head> in a comment with --!-->",
    "<head><!-- --!-</head>-->^</head>",
  ],
  ["reads <!--> as a complete comment", "<head><!-->^</head>-->"],
  ["reads <!---> as a complete comment", "<head><!--->^</head>-->"],
  [
    "reads a comment that begins with a dash",
    "<head><!---a></head>-->^</head>",
  ],
  [
    "ignores </head> in a conditional comment",
    "<head><!--[if IE]></head><body><![endif]-->^</head>",
  ],
  [
    "reads the content of a downlevel-revealed comment",
    "<head><![if !IE]><link href=a><![endif]>^</head>",
  ],
  [
    "ends a comment like <!x at the first >",
    "<head><!x '</head'><!->^</head>-->",
  ],
  ["ends <![CDATA[ at the first >", "<head><![CDATA[</head>^</head>]]>"],
  ["ends <?x at the first >", "<head><?x </head>^</head>?>"],
  ["ignores </head> in <script>", "<head><script>'</head>'</script>^</head>"],
  ["ignores </head> in <SCRIPT>", "<head><SCRIPT>'</head>'</ScRiPt >^</head>"],
  ["ignores </head> in <script/>", "<head><script/></head></script>^</head>"],
  [
    "distinguishes </scripts> from </script>",
    "<head><script></scripts></head></script>^</head>",
  ],
  [
    "reads a less-than sign in a script as text",
    "<head><script>a<b;a<</script>^</head>",
  ],
  [
    "reads a slash in a script as text",
    "<head><script>a/script></head></script>^</head>",
  ],
  [
    "reads <! in a script as text",
    "<head><script><!a></head></script>^</head>",
  ],
  [
    "ignores </head> in a comment of a script",
    "<head><script><!-- </head> --></script>^</head>",
  ],
  [
    "ends a script in its comment",
    "<head><script><!-- <scripts> </script>^</head> -->",
  ],
  [
    "ends a script in an incomplete <!-",
    "<head><script><!- <script></script>^</head>",
  ],
  ["ends a script after <!-->", "<head><script><!--><script></script>^</head>"],
  [
    "ends a script after <!--->",
    "<head><script><!---><script></script>^</head>",
  ],
  [
    "does not end a script at the </script> of a script in its comment",
    "<head><script><!-- <script> </script> </head> --></script>^</head>",
  ],
  [
    "ends a script at the second </script> of its comment",
    "<head><script><!-- <script></script></head></script>^</head>-->",
  ],
  [
    "ends a script after a comment with a <script>",
    "<head><script><!-- <script> - --> <script> </head> </script>^</head>",
  ],
  [
    "ignores </head> in <style>",
    "<head><style>a:after{content:'</head>'}</style>^</head>",
  ],
  ["reads no comments in <style>", "<head><style><!-- </style>^</head> -->"],
  ["ignores </head> in <title>", "<head><title></head><!--</title>^</head>"],
  [
    "ignores </head> in <noscript>",
    "<head><noscript><img></head><body></noscript>^</head>",
  ],
  [
    "reads no comments in <noscript>",
    "<head><noscript><!-- </noscript>^</head> -->",
  ],
  [
    "ignores </head> in <noframes>",
    "<head><noframes></head></noframes>^</head>",
  ],
  [
    "ends <title> at an end tag with attributes",
    '<head><title></title a="></head>">^</head>',
  ],
  [
    "ignores </head> in double quotes",
    '<head><meta content="</head>">^</head>',
  ],
  [
    "ignores </head> in single quotes",
    "<head><meta content='</head>\"'>^</head>",
  ],
  ["ends an unquoted value at >", "<head><meta content=</head>^</head>"],
  ["ends a missing value at >", "<head><meta content= >^</head>"],
  [
    "reads white space around =",
    '<head><meta content \n=\t"></head>">^</head>',
  ],
  [
    "reads attributes without a value",
    "<head><meta a b  c='></head>'d>^</head>",
  ],
  ["reads a slash in an unquoted value", "<head><link href=/a/>^</head>"],
  ["reads a quote in an attribute's name", '<head><meta a"b>^</head>">'],
  [
    "reads = at the beginning of an attribute's name",
    '<head><meta =">^</head>">',
  ],
  [
    "reads attributes without space between them",
    "<head><meta a='>'b=\"</head>\"/c/d='>'>^</head>",
  ],
  [
    "reads a doctype with quotes",
    "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML\" '</head'><head>^</head>",
  ],
  ["keeps a byte order mark", "\uFEFF<!doctype html><head>^</head>"],
  [
    "keeps text in UTF-8",
    "<head><title>é 日本 🦕</title><meta content='🦕'>^</head>é 日本 🦕",
  ],
];

const AFTER_HEAD: readonly Case[] = [
  [
    "inserts the script after <head> if the document has no </head>",
    "<!doctype html><head>^<title>a</title>",
  ],
  [
    "inserts the script after <head> if <body> ends the head",
    '<head lang="a>b">^<title>a</title><body></head></body>',
  ],
  ["inserts the script after the first of two <head>", "<head>^<head><body>"],
  [
    "inserts the script after <head> if text ends the head",
    "<head>^\n<title>a</title> text </head>",
  ],
  [
    "inserts the script after <head> if < and a digit ends the head",
    "<head>^<3</head>",
  ],
  ["distinguishes <header> from <head>", "<head>^<header></head></header>"],
  ["distinguishes </heading> from </head>", "<head>^</heading><h1></head>"],
  [
    "inserts the script after <head> if <svg> ends the head",
    "<head>^<svg></head></svg></head>",
  ],
  [
    "inserts the script after <head> if <math> ends the head",
    "<head>^<math></head></math></head>",
  ],
  [
    "inserts the script after <head> if <textarea> ends the head",
    "<head>^<textarea></head></textarea></head>",
  ],
  [
    "inserts the script after <head> if <plaintext> ends the head",
    "<head>^<plaintext></head>",
  ],
  [
    "inserts the script after <head> if </body> ends the head",
    "<head>^</body></head>",
  ],
  [
    "inserts the script after <head> if </html> ends the head",
    "<head>^</html></head>",
  ],
  [
    "inserts the script after <head> if </br> ends the head",
    "<head>^</br></head>",
  ],
  [
    "inserts the script after <head> if a script does not end",
    "<head>^<script></head><body>",
  ],
  [
    "inserts the script after <head> if a comment in a script hides its end",
    "<head>^<script><!--<script></script></head>",
  ],
  [
    "inserts the script after <head> if a comment does not end",
    "<head>^<!-- </head>",
  ],
  [
    "inserts the script after <head> if an attribute does not end",
    "<head>^<meta content='</head>",
  ],
  [
    "inserts the script after <head> if there is a template in it",
    "<head>^<meta a=b><template></head></template></head>",
  ],
  ["inserts the script after <head> if </head does not end", "<head>^</head"],
];

const FIRST: readonly Case[] = [
  ["inserts the script into an empty document", "^"],
  ["inserts the script before text", "^text </head>"],
  ["inserts the script before a body", "^<body><p>a</p></body>"],
  ["inserts the script before a <thead>", "^<thead></head>"],
  [
    "inserts the script before a <html> without a head",
    "<!doctype html>\n^<html lang=en>\n<title>a</title><body></body></html>",
  ],
  [
    "inserts the script before a <title> without a head",
    "<!doctype html>^<title>a</title><p>b",
  ],
  ["inserts the script before a stray end tag", "^</p><p></head>"],
  ["inserts the script after white space", " \t\r\n\f^<p>a"],
  [
    "inserts the script after comments and the doctype",
    "<!-- a -->\n<!doctype html>\n<!-- </head> -->\n^<p>a",
  ],
  [
    "inserts the script after an XML declaration",
    '<?xml version="1.0"?><!doctype html>^<p>a',
  ],
  [
    "inserts the script after a doctype without anything else",
    "<!doctype html>^",
  ],
  ["inserts the script after a byte order mark", "\uFEFF^<p>a"],
  [
    "inserts the script after a byte order mark and the doctype",
    "\uFEFF<!doctype html>^<p>a",
  ],
  [
    "does not skip a second byte order mark",
    "\uFEFF^\uFEFF<!doctype html><head></head>",
  ],
  [
    "inserts the script before a comment that does not end",
    "<!doctype html>^<!-- <head></head>",
  ],
  [
    "inserts the script before a <head> that does not end",
    "<!doctype html>^<head a='></head>",
  ],
  ["inserts the script before a < at the end", "<!doctype html>^<"],
];

/** Nothing that follows would be outside of the doctype. */
const WITHIN_DOCTYPE: Case = [
  "inserts the script before a doctype that does not end",
  "<!-- a -->^<!doctype html",
];

function bytes(text: string) {
  return new TextEncoder().encode(text);
}

function text(...chunks: readonly Uint8Array[]) {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
  return chunks.map((chunk) => decoder.decode(chunk, { stream: true })).join(
    "",
  ) + decoder.decode();
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

function injected(
  chunks: readonly Uint8Array[],
  script = bytes(SCRIPT),
): Promise<Uint8Array[]> {
  return Array.fromAsync(injectScript(ReadableStream.from(chunks), script));
}

const PARSEABLE = [...BEFORE_END_OF_HEAD, ...AFTER_HEAD, ...FIRST];

for (const [, marked] of PARSEABLE) {
  Deno.test(`a browser finds the script in ${JSON.stringify(marked)}`, () =>
    assertInserted(marked.replace("^", "")));
}

for (const [behavior, marked] of [...PARSEABLE, WITHIN_DOCTYPE]) {
  Deno.test(`injectScript() ${behavior}`, async () => {
    const document = bytes(marked.replace("^", ""));
    const expected = marked.replace("^", SCRIPT);
    for (const size of CHUNK_SIZES) {
      const chunks = await injected(chunksOf(document, () => size));
      assertEquals(text(...chunks), expected, `in chunks of ${size}`);
    }
    assertEquals(text(insertScript(document, bytes(SCRIPT))), expected);
  });
}

/** Bytes, and what becomes of them with the script `*`, which is 2a. */
const NOT_UTF8 = [
  ["reads a part of a byte order mark as text", "efbb20", "2aefbb20"],
  ["reads the first byte of a byte order mark as text", "ef", "2aef"],
  [
    "reads a byte order mark after white space as text",
    "20efbbbf",
    "202aefbbbf",
  ],
  ["keeps bytes that are not UTF-8", "3c21ff3e80", "3c21ff3e2a80"],
] as const;

for (const [behavior, document, expected] of NOT_UTF8) {
  Deno.test(`injectScript() ${behavior}`, async () => {
    for (const size of CHUNK_SIZES) {
      const chunks = chunksOf(Uint8Array.fromHex(document), () => size);
      const result = await injected(chunks, bytes("*"));
      const hex = result.map((chunk) => chunk.toHex()).join("");
      assertEquals(hex, expected, `in chunks of ${size}`);
    }
  });
}

Deno.test("injectScript() accepts white space, empty chunks and an empty script", async () => {
  const chunks = ["", " <head>", "", " </head>", "", "a"].map(bytes);
  assertEquals(text(...await injected(chunks, bytes(""))), " <head> </head>a");
});

const END_OF_HEAD = "</head>";
/** What is before a long comment, the length of that in bytes, and what is after it. */
const LIMITS = [
  [
    "finds a </head> that ends 64 KiB after <head>",
    "<head>",
    MAX_HEAD_BYTES - END_OF_HEAD.length,
    "^</head>",
  ],
  [
    "inserts the script after <head> if </head> ends one byte later",
    "<head>^",
    MAX_HEAD_BYTES - END_OF_HEAD.length + 1,
    "</head>",
  ],
  [
    "finds a <head> within 64 KiB of the first tag",
    "<html>",
    MAX_HEAD_BYTES - "<html><head>".length,
    "<head>^<body>",
  ],
  [
    "inserts the script at the beginning if <head> ends one byte later",
    "^<html>",
    MAX_HEAD_BYTES - "<html><head>".length + 1,
    "<head><body>",
  ],
  [
    "skips comments of 64 KiB",
    "<!doctype html>",
    MAX_HEAD_BYTES,
    "<head>^<body>",
  ],
  [
    "inserts the script before a comment that is one byte longer",
    "<!doctype html>^",
    MAX_HEAD_BYTES + 1,
    "<head></head>",
  ],
] as const;

for (const [behavior, before, length, after] of LIMITS) {
  Deno.test(`injectScript() ${behavior}`, async () => {
    const marked = `${before}<!--${"-".repeat(length - 7)}-->${after}`;
    const document = bytes(marked.replace("^", ""));
    for (const size of [7, 4096, 65_536, Infinity]) {
      const chunks = await injected(chunksOf(document, () => size));
      assert(
        text(...chunks) === marked.replace("^", SCRIPT),
        `in chunks of ${size}`,
      ); // too long for a diff
    }
  });
}

/** A body that records each read. */
function recorded(
  chunks: readonly string[],
  log: string[],
) {
  const rest = [...chunks];
  return new ReadableStream<Uint8Array>({
    pull(controller) {
      const chunk = rest.shift();
      log.push(`read ${chunk ?? "the end"}`);
      if (chunk === undefined) controller.close();
      else controller.enqueue(bytes(chunk));
    },
  }, { highWaterMark: 0 });
}

Deno.test("injectScript() reads only on demand, and holds back only what it has to", async () => {
  const log: string[] = [];
  const parts = [
    "<!-- a -->",
    " <!doctype",
    " html>",
    "<html>",
    "<head>",
    "<title>a",
    "</title></he",
    "ad>b",
    "c",
  ];
  const stream = injectScript(recorded(parts, log), bytes("SCRIPT"));
  for await (const chunk of stream) log.push(`return ${text(chunk)}`);
  assertEquals(log, [
    "read <!-- a -->",
    "return <!-- a -->",
    "read  <!doctype",
    "return  ",
    "read  html>",
    "return <!doctype",
    "return  html>",
    "read <html>",
    "read <head>",
    "return <html>",
    "return <head>",
    "read <title>a",
    "read </title></he",
    "read ad>b",
    "return <title>a",
    "return </title>",
    "return SCRIPT",
    "return </he",
    "return ad>b",
    "read c",
    "return c",
    "read the end",
  ]);
});

Deno.test("injectScript() does not read the body before the result is read", async () => {
  const log: string[] = [];
  const stream = injectScript(recorded(["<head></head>"], log), bytes(SCRIPT));
  assertEquals(
    text(...await injected([bytes("<head></head>")])),
    `<head>${SCRIPT}</head>`,
  ); // long enough for a read
  assertEquals(log, []);
  await stream.cancel();
});

Deno.test("injectScript() continues if a head is too long, without waiting for its end", async () => {
  const log: string[] = [];
  const styles = "a{}".repeat(MAX_HEAD_BYTES / 2);
  const reader = injectScript(
    recorded(["<head>", "<style>", styles, "</style>"], log),
    bytes(SCRIPT),
  ).getReader();
  const result: string[] = [];
  for (let i = 0; i < 4; i++) {
    result.push(text((await reader.read()).value ?? bytes("the end")));
  }
  assert(result.join("") === `<head>${SCRIPT}<style>${styles}`);
  assertEquals(log, ["read <head>", "read <style>", `read ${styles}`]);
  await reader.cancel();
});

Deno.test("injectScript() returns chunks without copying them", async () => {
  const chunks = [
    "<!doctype html><head>",
    "<title>a</title>",
    "</head>",
    "<body>",
    "</body>",
  ].map(bytes);
  const result = await injected(chunks);
  assertEquals(result.length, chunks.length + 1);
  result.splice(2, 1);
  result.forEach((chunk, i) => assertStrictEquals(chunk, chunks[i]));
});

Deno.test("injectScript() divides a chunk without copying it", async () => {
  const document = bytes("<head></head>");
  const result = await injected([document]);
  assertEquals(result.map((chunk) => text(chunk)), [
    "<head>",
    SCRIPT,
    "</head>",
  ]);
  assertStrictEquals(result[0]?.buffer, document.buffer);
  assertStrictEquals(result[2]?.buffer, document.buffer);
});

Deno.test("injectScript() keeps the script if a reader transfers the memory of the chunks", async () => {
  const script = bytes(SCRIPT);
  for (const chunk of await injected([bytes("a")], script)) {
    structuredClone(chunk, { transfer: [chunk.buffer as ArrayBuffer] });
  }
  assertEquals(text(...await injected([bytes("a")], script)), `${SCRIPT}a`);
});

Deno.test("injectScript() rejects a locked body", async () => {
  const body = new Blob(["<head></head>"]).stream();
  const reader = body.getReader();
  assertThrows(() => injectScript(body, bytes(SCRIPT)), TypeError);
  await reader.cancel();
});

/** A body that has the chunks, and never ends. */
function hanging(
  chunks: readonly string[],
  cancel: (reason: unknown) => void,
) {
  return new ReadableStream<Uint8Array>({
    start: (controller) =>
      chunks.forEach((chunk) => controller.enqueue(bytes(chunk))),
    cancel,
  });
}

const PLACES = { before: "<head>", after: "<head></head>" };

for (const [where, chunk] of Object.entries(PLACES)) {
  Deno.test(`injectScript() cancels the body if the result is cancelled ${where} the insertion point`, async () => {
    const reasons: unknown[] = [];
    const reader = injectScript(
      hanging([chunk], (reason) => reasons.push(reason)),
      bytes(SCRIPT),
    ).getReader();
    assertEquals(text((await reader.read()).value ?? bytes("")), "<head>");
    await reader.cancel("gone");
    assertEquals(reasons, ["gone"]);
  });

  Deno.test(`injectScript() forwards an error of the body ${where} the insertion point`, async () => {
    const failure = new Error("upstream");
    async function* failing() {
      yield await Promise.resolve(bytes(chunk));
      throw failure;
    }
    const error = await assertRejects(() =>
      Array.fromAsync(
        injectScript(ReadableStream.from(failing()), bytes(SCRIPT)),
      )
    );
    assertStrictEquals(error, failure);
  });
}

Deno.test("injectScript() can be cancelled while it waits for the body", async () => {
  const reasons: unknown[] = [];
  const reader = injectScript(
    hanging(["<html>"], (reason) => reasons.push(reason)),
    bytes(SCRIPT),
  ).getReader();
  const reading = reader.read();
  await reader.cancel("gone");
  assertEquals((await reading).done, true);
  assertEquals(reasons, ["gone"]);
});

Deno.test("injectScript() forwards an error of cancelling the body", async () => {
  const failure = new Error("cannot cancel");
  const stream = injectScript(
    hanging([], () => Promise.reject(failure)),
    bytes(SCRIPT),
  );
  assertStrictEquals(await assertRejects(() => stream.cancel()), failure);
});

const EARLIER =
  '<script id="__rep__" type="application/json">{"a":"</head>"}</script>';

/** Documents with an element that was inserted earlier, shown as `|`, and with what becomes of it. */
const INSERTED: Record<string, readonly [before: string, after: string]> = {
  "in the head": [
    "<head><title>a</title>|<meta></head>",
    "<head><title>a</title>^<meta></head>",
  ],
  "before the document": ["|<p>a</p>", "^<p>a</p>"],
  "in a comment": ["<head><!--|--></head>", "<head><!--|-->^</head>"],
  "in the body": ["<head></head><body>|", "<head>^</head><body>|"],
  "without its end": [
    "<head><script id=__rep__>",
    "<head>^<script id=__rep__>",
  ],
};

for (const [place, [before, after]] of Object.entries(INSERTED)) {
  Deno.test(`injectScript() and insertScript() replace an element that was inserted earlier: ${place}`, async () => {
    const html = before.replace("|", EARLIER);
    const expected = after.replace("|", EARLIER).replace("^", SCRIPT);
    assertEquals(text(insertScript(bytes(html), bytes(SCRIPT))), expected);
    for (const size of CHUNK_SIZES) {
      const chunks = await injected(chunksOf(bytes(html), () => size));
      assertEquals(text(...chunks), expected);
    }
  });
}

function insert(html: string): string {
  return new TextDecoder().decode(insertScript(bytes(html), bytes(SCRIPT)));
}

/** Documents with several earlier elements, shown as `|`, and the document with the new one, shown as `^`. */
const SEVERAL: Record<string, readonly [before: string, after: string]> = {
  "two elements": ["<head>|<meta>|</head>", "<head>^<meta>|</head>"],
  "an element in a comment": [
    "<head><!-- | --></head>",
    "<head><!-- | -->^</head>",
  ],
  "an element in a script": [
    "<head><script>'<script id=__rep__>'</script></head>",
    "<head><script>'<script id=__rep__>'</script>^</head>",
  ],
  "an element in the body": [
    "<head></head><body>|</body>",
    "<head>^</head><body>|</body>",
  ],
};

for (const [what, [before, after]] of Object.entries(SEVERAL)) {
  Deno.test(`insertScript() puts the new element before all others, so that browsers find it, with ${what}`, () => {
    const old =
      '<script data-rep-version="1" id=\'__rep__\' type="application/json">{"old":1}</script>';
    assertEquals(
      insert(before.replaceAll("|", old)),
      after.replaceAll("|", old).replaceAll("^", SCRIPT),
    );
  });
}

Deno.test("insertScript() leaves other scripts, whatever their attributes", () => {
  const html =
    '<head><script data-id="__rep__"></script><script id="__rep__2"></script><div id="__rep__"></div></head>';
  assertEquals(insert(html).replace(SCRIPT, ""), html);
});

/** What documents are put together from, at random. */
const PIECES =
  "<!doctype html>|<html>|<head>|<head a>|</head>|<body>|</body>|<template>|</template>|<script>|</script>|<!--|-->|<meta>|<title>|</title>|text| \n|<noscript>|</noscript>|<p a='</head>'>|<![CDATA[|]]>|</br>|\ufeff|<svg>|</head|<plaintext>"
    .split("|");

Deno.test("insertScript() changes nothing the second time, in 2,000 random documents", () => {
  const random = seededRandom(1);
  for (let count = 0; count < 2_000; count++) {
    const pieces = Array.from(
      { length: 10 * random() },
      () => PIECES[Math.floor(random() * PIECES.length)],
    );
    const once = insert(pieces.join(""));
    assertEquals(insert(once), once);
  }
});
