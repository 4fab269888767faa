import { assertEquals } from "@std/assert";
import { createLog, type LogFields, type LogOptions } from "../src/log.ts";

const TIME = /\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z/;

/** The lines that are written, with the time taken out. */
function linesOf(options: LogOptions, run: (log: ReturnType<typeof createLog>) => void): string[] {
  const lines: string[] = [];
  run(createLog({ ...options, write: (line) => lines.push(line) }));
  return lines.map((line) => line.replace(TIME, "TIME"));
}

function lineOf(format: "json" | "text", fields?: LogFields): string | undefined {
  return linesOf({ format }, (log) => log.info("rep.test", fields)).at(0);
}

const FIELDS: LogFields = {
  key: "API_URL",
  id: 1_700_000_000_000,
  ok: true,
  none: undefined,
  issues: ["one", "two"],
  empty: "",
};

Deno.test("createLog() writes an event as one line of JSON", () => {
  assertEquals(
    lineOf("json", FIELDS),
    '{"time":"TIME","level":"INFO","msg":"rep.test","key":"API_URL","id":1700000000000,"ok":true,"issues":["one","two"],"empty":""}',
  );
});

Deno.test("createLog() writes an event as one line of text", () => {
  assertEquals(
    lineOf("text", FIELDS),
    'TIME INFO  rep.test key=API_URL id=1700000000000 ok=true issues=one,two empty=""',
  );
});

Deno.test("createLog() writes an event without fields", () => {
  assertEquals(
    [lineOf("json"), lineOf("text")],
    ['{"time":"TIME","level":"INFO","msg":"rep.test"}', "TIME INFO  rep.test"],
  );
});

Deno.test("createLog() writes JSON by default", () => {
  assertEquals(linesOf({}, (log) => log.warn("rep.test")), ['{"time":"TIME","level":"WARN","msg":"rep.test"}']);
});

Deno.test("createLog() writes the present time", () => {
  const lines: string[] = [];
  const before = Date.now();
  createLog({ write: (line) => lines.push(line) }).info("rep.test");
  const time = new Date(JSON.parse(lines[0] ?? "").time).getTime();
  assertEquals(time >= before && time <= Date.now(), true);
});

/** What somebody could send to write lines or fields of their own, or to a terminal; as it is in JSON. */
const HOSTILE: readonly (readonly [value: string, written: string])[] = [
  ["a\nINFO rep.session_key.issued", '"a\\nINFO rep.session_key.issued"'],
  ["a\r\nb", '"a\\r\\nb"'],
  ['a" level="ERROR', '"a\\" level=\\"ERROR"'],
  ['a","level":"ERROR', '"a\\",\\"level\\":\\"ERROR"'],
  ["a\\", '"a\\\\"'],
  ["a key=b", '"a key=b"'],
  ["key=b", '"key=b"'],
  ["\x1b[31mred\x1b]0;title\x07", '"\\u001b[31mred\\u001b]0;title\\u0007"'],
  ["\x9b31mred", '"\\u009b31mred"'],
  ["a\x7f\x85b", '"a\\u007f\\u0085b"'],
  ["a\u2028b\u2029c", '"a\\u2028b\\u2029c"'],
  ["a\u202eb\u2066c", '"a\\u202eb\\u2066c"'],
  ["a\0b", '"a\\u0000b"'],
  ["\ud800", '"\\ud800"'],
];

for (const [value, written] of HOSTILE) {
  Deno.test(`createLog() writes ${written} so that it is a value and nothing else`, () => {
    assertEquals(lineOf("json", { value }), `{"time":"TIME","level":"INFO","msg":"rep.test","value":${written}}`);
    assertEquals(lineOf("text", { value }), `TIME INFO  rep.test value=${written}`);
    assertEquals(JSON.parse(written), value);
  });
}

Deno.test("createLog() quotes lists in text as it does texts", () => {
  assertEquals(lineOf("text", { issues: ["a b", "c\nd"] }), 'TIME INFO  rep.test issues="a b,c\\nd"');
});

Deno.test("createLog() writes ordinary text as it is, whatever its language", () => {
  assertEquals(lineOf("text", { value: "Größe 😀" }), 'TIME INFO  rep.test value="Größe 😀"');
});

const LEVELS = ["debug", "info", "warn", "error"] as const;

for (const [index, level] of LEVELS.entries()) {
  Deno.test(`createLog() writes what is ${level} or more important, and nothing else`, () => {
    const lines = linesOf({ format: "text", level }, (log) => LEVELS.forEach((one) => log[one]("rep.test")));
    assertEquals(lines.map((line) => line.split(/\s+/)[1]?.toLowerCase()), LEVELS.slice(index));
  });
}

Deno.test("createLog() writes what is info or more important by default", () => {
  assertEquals(linesOf({ format: "text" }, (log) => LEVELS.forEach((level) => log[level]("rep.test"))), [
    "TIME INFO  rep.test",
    "TIME WARN  rep.test",
    "TIME ERROR rep.test",
  ]);
});

Deno.test("createLog() survives a write that throws, and goes on", () => {
  const lines: string[] = [];
  let isFull = true;
  const log = createLog({
    format: "text",
    write(line) {
      if (isFull) throw new Deno.errors.BrokenPipe("nobody reads");
      lines.push(line.replace(TIME, "TIME"));
    },
  });
  log.info("rep.lost");
  isFull = false;
  log.info("rep.test");
  assertEquals(lines, ["TIME INFO  rep.test"]);
});
