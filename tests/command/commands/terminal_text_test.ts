import { assertEquals } from "@std/assert";
import {
  escapeInvisible,
  printTable,
  terminalJson,
  truncate,
} from "../../../src/command/commands/terminal_text.ts";

/** Returns the lines that a table prints. */
function linesOf(
  rows: readonly string[][],
  flexible: number,
  columns: number,
): string[] {
  const lines: string[] = [];
  printTable(rows, flexible, {
    columns,
    print: (text) => void lines.push(...text.split("\n")),
  });
  return lines;
}

const HOSTILE =
  "a\nb\r\tc\x1b[31m\0\x7f\x9b1m\u2028\u202eevil\u200b\ufeff\u{e0001}";
const ESCAPED =
  "a\\nb\\r\\tc\\u{1b}[31m\\u{0}\\u{7f}\\u{9b}1m\\u{2028}\\u{202e}evil\\u{200b}\\u{feff}\\u{e0001}";

Deno.test("escapeInvisible() escapes what a terminal interprets or does not display", () => {
  assertEquals(escapeInvisible(HOSTILE), ESCAPED);
  assertEquals(escapeInvisible("half \ud83d here"), "half \\u{d83d} here");
});

Deno.test("escapeInvisible() does not change visible characters", () => {
  const text =
    "https://example.com/?a=b&c=[d] \\ 'quoted' äöü 日本 \u{1f600} e\u0301";
  assertEquals(escapeInvisible(text), text);
});

Deno.test("printTable() prints any number of rows", () => {
  const rows = Array.from({ length: 200_000 }, () => ["A"]);
  let lines = 0;
  const print = (text: string) => void (lines = text.split("\n").length);
  printTable(rows, 0, { columns: 80, print });
  assertEquals(lines, rows.length);
});

Deno.test("printTable() prints a row with any characters as one line", () => {
  const lines = linesOf(
    [["NAME", "VALUE", "ID"], ["A", HOSTILE, "1"], ["BCDEF", "", "22"]],
    1,
    200,
  );
  assertEquals(lines, [
    `NAME   ${"VALUE".padEnd(ESCAPED.length)}  ID`,
    `A      ${ESCAPED}  1`,
    `BCDEF  ${" ".repeat(ESCAPED.length)}  22`,
  ]);
});

Deno.test("printTable() truncates one column only", () => {
  const rows = [["NAME", "VALUE", "ID"], [
    "SHORT",
    "x".repeat(50),
    "1234567890",
  ]];
  assertEquals(linesOf(rows, 1, 40), [
    "NAME   VALUE                  ID",
    `SHORT  ${"x".repeat(20)}…  1234567890`,
  ]);
  assertEquals(linesOf(rows, 1, 5), [
    "NAME   VALUE       ID",
    `SHORT  ${"x".repeat(9)}…  1234567890`,
  ]);
});

Deno.test("printTable() counts wide characters as two columns, and combining marks as none", () => {
  assertEquals(
    linesOf(
      [["VALUE", "ID"], ["日本", "1"], ["\u{1f600}", "2"], ["e\u0301", "3"]],
      0,
      80,
    ),
    [
      "VALUE  ID",
      "日本   1",
      "\u{1f600}     2",
      "e\u0301      3",
    ],
  );
});

Deno.test("truncate() returns a text that fits, or leaves room for the ellipsis", () => {
  assertEquals([
    truncate("abcde", 5),
    truncate("abcdef", 5),
    truncate("日本語", 5),
    truncate("", 0),
  ], [
    "abcde",
    "abcd…",
    "日本…",
    "",
  ]);
});

Deno.test("terminalJson() escapes what a terminal interprets, and parses to the same value", () => {
  const json = terminalJson([{ value: HOSTILE }], 2);
  assertEquals(JSON.parse(json), [{ value: HOSTILE }]);
  assertEquals(
    // deno-lint-ignore no-control-regex -- these must not be in the output
    /[\0-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\u200b\ufeff\u{e0001}]/u.test(json),
    false,
  );
  assertEquals(json.split("\n").length, 5);
});
