import { assertEquals } from "@std/assert";
import { cut, formatTable, terminalJson, visible } from "../../../src/cli/commands/table.ts";

const HOSTILE = "a\nb\r\tc\x1b[31m\0\x7f\x9b1m\u2028\u202eevil\u200b\ufeff\u{e0001}";
const MADE_VISIBLE = "a\\nb\\r\\tc\\u{1b}[31m\\u{0}\\u{7f}\\u{9b}1m\\u{2028}\\u{202e}evil\\u{200b}\\u{feff}\\u{e0001}";

Deno.test("visible() writes as an escape what a terminal would obey or not show", () => {
  assertEquals(visible(HOSTILE), MADE_VISIBLE);
  assertEquals(visible("half \ud83d here"), "half \\u{d83d} here");
});

Deno.test("visible() leaves alone what can be read", () => {
  const text = "https://example.com/?a=b&c=[d] \\ 'quoted' äöü 日本 \u{1f600} e\u0301";
  assertEquals(visible(text), text);
});

Deno.test("formatTable() keeps a row on one line, whatever is in it", () => {
  const lines = formatTable([["NAME", "VALUE", "ID"], ["A", HOSTILE, "1"], ["BCDEF", "", "22"]], {
    width: 200,
    flexible: 1,
  });
  assertEquals(lines, [
    `NAME   ${"VALUE".padEnd(MADE_VISIBLE.length)}  ID`,
    `A      ${MADE_VISIBLE}  1`,
    `BCDEF  ${" ".repeat(MADE_VISIBLE.length)}  22`,
  ]);
});

Deno.test("formatTable() cuts one column to the width, and the others never", () => {
  const rows = [["NAME", "VALUE", "ID"], ["SHORT", "x".repeat(50), "1234567890"]];
  assertEquals(formatTable(rows, { width: 40, flexible: 1 }), [
    "NAME   VALUE                  ID",
    `SHORT  ${"x".repeat(20)}…  1234567890`,
  ]);
  assertEquals(formatTable(rows, { width: 5, flexible: 1 }), [
    "NAME   VALUE       ID",
    `SHORT  ${"x".repeat(9)}…  1234567890`,
  ]);
});

Deno.test("formatTable() makes a column no wider than what is in it", () => {
  assertEquals(formatTable([["NAME", "VALUE"], ["A", "1"]], { width: 80, flexible: 1 }), ["NAME  VALUE", "A     1"]);
});

Deno.test("formatTable() counts what is drawn wide as two columns, and marks as none", () => {
  assertEquals(
    formatTable([["VALUE", "ID"], ["日本", "1"], ["\u{1f600}", "2"], ["e\u0301", "3"]], { width: 80, flexible: 0 }),
    [
      "VALUE  ID",
      "日本   1",
      "\u{1f600}     2",
      "e\u0301      3",
    ],
  );
});

Deno.test("cut() leaves a text that fits, and else room for the ellipsis", () => {
  assertEquals([cut("abcde", 5), cut("abcdef", 5), cut("日本語", 5), cut("", 0)], ["abcde", "abcd…", "日本…", ""]);
});

Deno.test("terminalJson() has nothing in it that a terminal obeys, and is the same when it is parsed", () => {
  const json = terminalJson([{ value: HOSTILE }], 2);
  assertEquals(JSON.parse(json), [{ value: HOSTILE }]);
  // deno-lint-ignore no-control-regex -- these are what must not be there
  assertEquals(/[\0-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\u200b\ufeff\u{e0001}]/u.test(json), false);
  assertEquals(json.split("\n").length, 5);
});
