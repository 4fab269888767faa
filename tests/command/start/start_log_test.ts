// deno-lint-ignore-file no-console -- a function under test replaces the console
import process from "node:process";
import { assertEquals, assertThrows } from "@std/assert";
import { OPTION_NAMES } from "../../../src/command/options/option_table.ts";
import {
  logNodeWarnings,
  logRuntimeWarnings,
  openLog,
  startErrorMessage,
} from "../../../src/command/start/start_log.ts";
import {
  LineQueue,
  type LineSink,
} from "../../../src/command/start/line_queue.ts";
import type { Output } from "../../../src/command/start/output.ts";
import { NUMBER_OPTIONS } from "../../../src/options.ts";
import { OptionError } from "../../../src/core/values/option_error.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { captureLog } from "../../_gateway.ts";
import { optionsOf } from "../_options.ts";

const PRINTERS = ["debug", "log", "info", "warn", "error", "trace"] as const;

/** Calls a function that replaces methods of the console. */
function keepingConsole(call: () => void): void {
  const { debug, log, info, warn, error, trace } = console;
  try {
    call();
  } finally {
    Object.assign(console, { debug, log, info, warn, error, trace });
  }
}

Deno.test("logRuntimeWarnings() and logNodeWarnings() log what is printed with the console and by Node.js, except for what no user can follow", async () => {
  const { log, lines } = captureLog();
  const listeners = process.listeners("warning");
  keepingConsole(() => {
    logRuntimeWarnings(log);
    for (const name of PRINTERS) console[name](`Deno.${name}:`, "deprecated");
    console.warn(
      "Deno.serve: request.signal aborts. Opt in to the new behavior with --unstable-no-legacy-abort.",
    );
  });
  await logNodeWarnings(log);
  process.emitWarning("soon", "DeprecationWarning");
  await new Promise(process.nextTick);
  process.removeAllListeners("warning");
  for (const listener of listeners) process.on("warning", listener);
  const details = [
    ...PRINTERS.map((name) => `Deno.${name}: deprecated`),
    "DeprecationWarning: soon",
  ];
  assertEquals(
    lines.map(({ level, msg, detail }) => ({ level, msg, detail })),
    details.map((detail) => ({
      level: "WARN",
      msg: "rep.runtime.warning",
      detail,
    })),
  );
});

/** A descriptor that keeps what is written, or fails as one whose reader has left. */
function collect({ isBroken = false } = {}) {
  const text: string[] = [];
  return {
    events: () =>
      text.join("").split("\n").filter(Boolean).map((line) =>
        JSON.parse(line).msg
      ),
    write(bytes: Uint8Array) {
      if (isBroken) return Promise.reject(new Error("Broken pipe"));
      text.push(new TextDecoder().decode(bytes));
      return Promise.resolve(bytes.length);
    },
  };
}

function outputTo(stdout: LineSink, stderr: LineSink): Output {
  const clock = new FakeClock();
  const unexpected = () => Promise.reject(new Error("unexpected"));
  return {
    stdout: new LineQueue(stdout, clock),
    stderr: new LineQueue(stderr, clock),
    flush: unexpected,
    exit: unexpected,
  };
}

for (const stream of ["stdout", "stderr"] as const) {
  const args = ["--audit-log", stream];

  Deno.test(`openLog() writes issued session keys to ${stream} with --audit-log ${stream}, at any level, and everything else to stdout`, async () => {
    const [stdout, stderr] = [collect(), collect()];
    const output = outputTo(stdout, stderr);
    const options = optionsOf([...args, "--log-level", "error"]);
    keepingConsole(() => {
      const log = openLog({ options, warnings: [] }, output);
      log.info("rep.session_key.issued", { key_id: "k" });
      log.info("rep.listening");
      log.error("rep.store.down");
    });
    await output.stdout.flush();
    await output.stderr.flush();
    assertEquals(
      { stdout: stdout.events(), stderr: stderr.events() },
      stream === "stderr"
        ? { stdout: ["rep.store.down"], stderr: ["rep.session_key.issued"] }
        : { stdout: ["rep.session_key.issued", "rep.store.down"], stderr: [] },
    );
  });

  Deno.test(`openLog() throws for an issued session key that ${stream} has no place for, and for nothing else`, () => {
    const stdout = collect({ isBroken: stream === "stdout" });
    const output = outputTo(stdout, collect({ isBroken: true }));
    const options = optionsOf(args);
    const fields = { detail: "x".repeat(1 << 20) };
    keepingConsole(() => {
      const log = openLog({ options, warnings: [] }, output);
      log.info("rep.session_key.issued", fields);
      assertThrows(() => log.info("rep.session_key.issued"), Error, "Cannot");
      log.info("rep.request");
    });
    assertEquals(output[stream].dropped, stream === "stdout" ? 2 : 1);
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
