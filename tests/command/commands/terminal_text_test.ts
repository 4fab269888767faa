import { assertEquals } from "@std/assert";
import {
  printTable,
  terminalJson,
} from "../../../src/command/commands/terminal_text.ts";

const HOSTILE =
  "a\nb\r\tc\x1b[31m\0\x7f\x9b1m\u2028\u202eevil\u200b\ufeff\u{e0001}";
const ESCAPED =
  "a\\nb\\r\\tc\\u001b[31m\\u0000\\u007f\\u009b1m\\u2028\\u202eevil\\u200b\\ufeff\\udb40\\udc01";

Deno.test("printTable() prints any number of rows", () => {
  const rows = Array.from({ length: 200_000 }, () => ["A"]);
  let lines = 0;
  const print = (text: string) => void (lines = text.split("\n").length);
  printTable(rows, { print });
  assertEquals(lines, rows.length);
});

Deno.test("printTable() aligns all columns but the last, and prints a row with any characters as one line", () => {
  const long = "long ".repeat(100);
  const rows = [
    ["NAME", "ID", "VALUE"],
    [HOSTILE, "1", HOSTILE],
    ["B", "22", long],
    ["C", "3", ""],
  ];
  let text = "";
  printTable(rows, { print: (printed) => void (text = printed) });
  const indent = (name: string) => name.padEnd(ESCAPED.length);
  assertEquals(text.split("\n"), [
    `${indent("NAME")}  ID  VALUE`,
    `${ESCAPED}  1   ${ESCAPED}`,
    `${indent("B")}  22  ${long.trimEnd()}`,
    `${indent("C")}  3`,
  ]);
});

Deno.test("terminalJson() escapes what a terminal interprets, and parses to the same value", () => {
  const json = terminalJson([{ value: HOSTILE }]);
  assertEquals(JSON.parse(json), [{ value: HOSTILE }]);
  assertEquals(
    // deno-lint-ignore no-control-regex -- these must not be in the output
    /[\0-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\u200b\ufeff\u{e0001}]/u.test(json),
    false,
  );
  assertEquals(json.split("\n").length, 5);
});
