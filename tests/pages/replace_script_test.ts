import { assertEquals } from "@std/assert";
import {
  readConfigScript,
  replaceScript,
} from "../../src/pages/insert_script.ts";

const encoder = new TextEncoder();
const SCRIPT =
  '<script id="__rep__" type="application/json">{"new":1}</script>';

function replace(html: string): string | undefined {
  const result = replaceScript(encoder.encode(html), encoder.encode(SCRIPT));
  return result && new TextDecoder().decode(result);
}

/** Documents with an element that is replaced, shown as `|`, and the place of the new one. */
const DOCUMENTS: Record<string, readonly [before: string, after: string]> = {
  "no element": ["<head></head>", "<head>|</head>"],
  "an element": ["<head>|</head>", "<head>|</head>"],
  "an element in another place": [
    "<head></head><body>|</body>",
    "<head>|</head><body></body>",
  ],
  "two elements": ["<head>|<meta>|</head>", "<head><meta>|</head>"],
  "an element after a < that is text": [
    "<head></head>1 <|",
    "<head>|</head>1 <",
  ],
  "an element in a comment": [
    "<head><!-- | --></head>",
    "<head><!-- OLD -->|</head>",
  ],
  "an element in a script": [
    "<head><script>'<script id=__rep__>'</script></head>",
    "<head><script>'<script id=__rep__>'</script>|</head>",
  ],
};

for (const [what, [before, after]] of Object.entries(DOCUMENTS)) {
  Deno.test(`replaceScript() replaces ${what}`, () => {
    const old =
      '<script data-rep-version="1" id=\'__rep__\' type="application/json">{"old":1}</script>';
    assertEquals(
      replace(before.replaceAll("|", old)),
      after.replaceAll("OLD", old).replaceAll("|", SCRIPT),
    );
  });
}

Deno.test("replaceScript() leaves other scripts, whatever their attributes", () => {
  const html =
    '<head><script data-id="__rep__"></script><script id="__rep__2"></script><div id="__rep__"></div></head>';
  assertEquals(replace(html)?.replace(SCRIPT, ""), html);
});

Deno.test("replaceScript() changes nothing the second time", () => {
  const once = replace("\ufeff<!doctype html><title>é</title><p>");
  assertEquals(replace(once ?? ""), once);
});

Deno.test("replaceScript() returns undefined for UTF-16", () => {
  assertEquals(
    replaceScript(Uint8Array.of(0xfe, 0xff, 0, 0x3c), encoder.encode(SCRIPT)),
    undefined,
  );
});

Deno.test("readConfigScript() returns the text of the element, if there is one", () => {
  assertEquals(
    readConfigScript(encoder.encode(`<head>${SCRIPT}`)),
    '{"new":1}',
  );
  assertEquals(
    readConfigScript(encoder.encode("<head><script>1</script>")),
    undefined,
  );
});
