import { assertEquals } from "@std/assert";
import {
  escapeInvisible,
  printTable,
  terminalJson,
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
  "a\\nb\\r\\tc\\u001b[31m\\u0000\\u007f\\u009b1m\\u2028\\u202eevil\\u200b\\ufeff\\udb40\\udc01";

Deno.test("escapeInvisible() escapes what a terminal interprets or does not display", () => {
  assertEquals(escapeInvisible(HOSTILE), ESCAPED);
  assertEquals(escapeInvisible("half \ud83d here"), "half \\ud83d here");
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

Deno.test("printTable() truncates between characters", () => {
  const value = `${"x".repeat(8)}\u{1f600}xx`;
  assertEquals(linesOf([["VALUE", "ID"], [value, "1"]], 0, 5), [
    "VALUE       ID",
    `${"x".repeat(8)}…   1`,
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
