import { assertEquals, assertThrows } from "@std/assert";
import {
  createLog,
  describeError,
  type LogFields,
  type LogOptions,
  logTaskError,
} from "../../../src/core/observe/log.ts";

const TIME = /\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z/;

/** Returns the lines that are written, with TIME in place of the time. */
function writtenLines(
  options: LogOptions,
  run: (log: ReturnType<typeof createLog>) => void,
): string[] {
  const lines: string[] = [];
  run(createLog({ ...options, write: (line) => lines.push(line) }));
  return lines.map((line) => line.replace(TIME, "TIME"));
}

function writtenLine(
  format: "json" | "text",
  fields?: LogFields,
): string | undefined {
  return writtenLines({ format }, (log) => log.info("rep.test", fields)).at(0);
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
    writtenLine("json", FIELDS),
    '{"time":"TIME","level":"INFO","msg":"rep.test","key":"API_URL","id":1700000000000,"ok":true,"issues":["one","two"],"empty":""}',
  );
});

Deno.test("createLog() writes an event as one line of text", () => {
  assertEquals(
    writtenLine("text", FIELDS),
    'TIME INFO  rep.test key=API_URL id=1700000000000 ok=true issues="one; two" empty=""',
  );
});

const LEVELS = ["debug", "info", "warn", "error"] as const;

Deno.test("createLog() writes JSON from info on by default", () => {
  assertEquals(
    writtenLines(
      {},
      (log) => LEVELS.forEach((level) => log[level]("rep.test")),
    ),
    [
      '{"time":"TIME","level":"INFO","msg":"rep.test"}',
      '{"time":"TIME","level":"WARN","msg":"rep.test"}',
      '{"time":"TIME","level":"ERROR","msg":"rep.test"}',
    ],
  );
});

Deno.test("createLog() writes the current time", () => {
  const lines: string[] = [];
  const before = Date.now();
  createLog({ write: (line) => lines.push(line) }).info("rep.test");
  const time = new Date(JSON.parse(lines[0] ?? "").time).getTime();
  assertEquals(time >= before && time <= Date.now(), true);
});

/** Values that could forge lines or fields, or control a terminal, and their JSON. */
const HOSTILE: Record<string, string> = {
  "a\nINFO rep.session_key.issued": '"a\\nINFO rep.session_key.issued"',
  "a\r\nb": '"a\\r\\nb"',
  'a" level="ERROR': '"a\\" level=\\"ERROR"',
  'a","level":"ERROR': '"a\\",\\"level\\":\\"ERROR"',
  "a\\": '"a\\\\"',
  "a key=b": '"a key=b"',
  "key=b": '"key=b"',
  "\x1b[31mred\x1b]0;title\x07": '"\\u001b[31mred\\u001b]0;title\\u0007"',
  "\x9b31mred": '"\\u009b31mred"',
  "a\x7f\x85b": '"a\\u007f\\u0085b"',
  "a\u2028b\u2029c": '"a\\u2028b\\u2029c"',
  "a\u202eb\u2066c": '"a\\u202eb\\u2066c"',
  "a\0b": '"a\\u0000b"',
  "\ud800": '"\\ud800"',
};

for (const [value, written] of Object.entries(HOSTILE)) {
  Deno.test(`createLog() writes ${written} as a value and nothing else`, () => {
    assertEquals(
      writtenLine("json", { value }),
      `{"time":"TIME","level":"INFO","msg":"rep.test","value":${written}}`,
    );
    assertEquals(
      writtenLine("text", { value }),
      `TIME INFO  rep.test value=${written}`,
    );
    assertEquals(JSON.parse(written), value);
  });
}

Deno.test("createLog() quotes lists in text like strings, and separates them by semicolons, since values have commas", () => {
  assertEquals(
    writtenLine("text", { issues: ["a, b", "c\nd"] }),
    'TIME INFO  rep.test issues="a, b; c\\nd"',
  );
});

Deno.test("createLog() writes letters of any language unescaped", () => {
  assertEquals(
    writtenLine("text", { value: "Größe 😀" }),
    'TIME INFO  rep.test value="Größe 😀"',
  );
});

Deno.test("createLog() writes URLs without credentials", () => {
  const fields = {
    detail: "no route to 'https://user:CANARY@kv.example.com/x'",
    urls: ["postgres://u:CANARY@db/x"],
  };
  assertEquals([writtenLine("json", fields), writtenLine("text", fields)], [
    '{"time":"TIME","level":"INFO","msg":"rep.test","detail":"no route to \'https://…@kv.example.com/x\'",' +
    '"urls":["postgres://…@db/x"]}',
    "TIME INFO  rep.test detail=\"no route to 'https://…@kv.example.com/x'\" urls=postgres://…@db/x",
  ]);
});

Deno.test("createLog() writes issued session keys at any level", () => {
  assertEquals(
    writtenLines(
      { format: "text", level: "error" },
      (log) => log.info("rep.session_key.issued", { id: 1 }),
    ),
    [
      "TIME INFO  rep.session_key.issued id=1",
    ],
  );
});

for (const [index, level] of LEVELS.entries()) {
  Deno.test(`createLog() with level ${level} writes that level and above`, () => {
    const lines = writtenLines(
      { format: "text", level },
      (log) => LEVELS.forEach((one) => log[one]("rep.test")),
    );
    assertEquals(
      lines.map((line) => line.split(/\s+/)[1]?.toLowerCase()),
      LEVELS.slice(index),
    );
  });
}

Deno.test("createLog() throws the error of write() for an issued session key", () => {
  const log = createLog({
    level: "error",
    write() {
      throw new Deno.errors.BrokenPipe("no reader");
    },
  });
  assertThrows(
    () => log.info("rep.session_key.issued"),
    Deno.errors.BrokenPipe,
  );
});

Deno.test("createLog() ignores an error of write()", () => {
  const lines: string[] = [];
  let isFull = true;
  const log = createLog({
    format: "text",
    write(line) {
      if (isFull) throw new Deno.errors.BrokenPipe("no reader");
      lines.push(line.replace(TIME, "TIME"));
    },
  });
  log.info("rep.lost");
  isFull = false;
  log.info("rep.test");
  assertEquals(lines, ["TIME INFO  rep.test"]);
});

Deno.test("logTaskError() logs the error of a recurring task with its stack", () => {
  const error = new TypeError("a bug");
  const [line = ""] = writtenLines(
    {},
    (log) => logTaskError(log, "poll")(error),
  );
  assertEquals(JSON.parse(line), {
    time: "TIME",
    level: "ERROR",
    msg: "rep.task.failed",
    task: "poll",
    detail: error.stack,
  });
});

Deno.test("describeError() returns the stack, else the message, else the value as text", () => {
  const withoutStack = Object.assign(new Error("a bug"), { stack: undefined });
  const error = new Error("a bug");
  assertEquals([error, withoutStack, "gone", undefined].map(describeError), [
    error.stack,
    "a bug",
    "gone",
    "undefined",
  ]);
});
