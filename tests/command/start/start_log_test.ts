// deno-lint-ignore-file no-console -- a function under test replaces console.warn
import { assertEquals } from "@std/assert";
import { OPTION_NAMES } from "../../../src/command/options/option_table.ts";
import {
  logRuntimeWarnings,
  openLog,
  startErrorMessage,
} from "../../../src/command/start/start_log.ts";
import { NUMBER_OPTIONS } from "../../../src/options.ts";
import { OptionError } from "../../../src/core/values/option_error.ts";
import { captureLog } from "../../_gateway.ts";
import { optionsOf } from "../_options.ts";

Deno.test("logRuntimeWarnings() logs what is printed with console.warn, except for what no user can follow", () => {
  const { warn } = console;
  const { log, lines } = captureLog();
  try {
    logRuntimeWarnings(log);
    console.warn("Deno.serve:", "deprecated");
    console.warn(
      "Deno.serve: request.signal aborts. Opt in to the new behavior with --unstable-no-legacy-abort.",
    );
  } finally {
    console.warn = warn;
  }
  assertEquals(
    lines.map(({ level, msg, detail }) => ({ level, msg, detail })),
    [
      {
        level: "WARN",
        msg: "rep.runtime.warning",
        detail: "Deno.serve: deprecated",
      },
    ],
  );
});

for (const stream of ["stdout", "stderr"] as const) {
  Deno.test(`openLog() writes issued session keys to ${stream} with --audit-log ${stream}, at any level, and everything else to stdout`, () => {
    const { log: print, warn } = console;
    const { writeSync } = Deno.stderr;
    const written: Record<string, string[]> = { stdout: [], stderr: [] };
    try {
      console.log = (line) => void written.stdout?.push(line);
      Deno.stderr.writeSync = (bytes) => {
        written.stderr?.push(new TextDecoder().decode(bytes).trimEnd());
        return bytes.length;
      };
      const start = {
        options: optionsOf(["--audit-log", stream, "--log-level", "error"]),
        warnings: [],
      };
      const log = openLog(start);
      log.info("rep.session_key.issued", { key_id: "k" });
      log.info("rep.listening");
      log.error("rep.store.down");
    } finally {
      console.log = print;
      console.warn = warn;
      Deno.stderr.writeSync = writeSync;
    }
    const events = (lines: string[] = []) =>
      lines.map((line) => JSON.parse(line).msg);
    assertEquals(
      { stdout: events(written.stdout), stderr: events(written.stderr) },
      stream === "stderr"
        ? { stdout: ["rep.store.down"], stderr: ["rep.session_key.issued"] }
        : { stdout: ["rep.session_key.issued", "rep.store.down"], stderr: [] },
    );
  });
}

Deno.test("startErrorMessage() names the flag of an option that the gateway rejects", () => {
  const error = new OptionError("sessionKeyTtlMs", "an integer", "0");
  assertEquals([error.message, startErrorMessage(error)], [
    "Cannot use sessionKeyTtlMs: expected an integer, got 0",
    "Cannot use --session-key-ttl: expected an integer, got 0",
  ]);
  assertEquals(startErrorMessage(new Error("Cannot A")), "Cannot A");
});

Deno.test("startErrorMessage() names flags that exist, for every option that can be rejected", () => {
  const options = [
    ...Object.keys(NUMBER_OPTIONS),
    "allowedHosts",
    "allowedOrigins",
    "basePath",
    "upstream",
    "staticDir",
  ];
  const flags = options.map((option) => {
    const message = startErrorMessage(new OptionError(option, "", ""));
    return /--([a-z-]+)/.exec(message)?.[1] as typeof OPTION_NAMES[number];
  });
  assertEquals(flags.filter((flag) => !OPTION_NAMES.includes(flag)), []);
});
