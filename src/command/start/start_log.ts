import {
  AUDIT_EVENT,
  createLog,
  describeError,
  type Log,
  type LogLevel,
  logThrough,
  messageOf,
} from "../../core/observe/log.ts";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import { UsageError } from "../options/read_options.ts";
import { OptionError } from "../../core/values/option_error.ts";
import type { Telemetry } from "../../core/observe/telemetry.ts";
import {
  isTelemetryEnabled,
  openTelemetry,
} from "../../addons/telemetry/open_telemetry.ts";
import { readVariable } from "../../core/values/runtime.ts";
import type { Start } from "../options/read_start.ts";
import { escapeLines } from "../../core/values/visible_text.ts";
import type { LineQueue } from "./line_queue.ts";
import type { Output } from "./output.ts";

/** Creates the log of a command, with audit events where `--audit-log` says, and writes the command's warnings to it. */
export function openLog(
  { options, warnings }: Pick<Start, "options" | "warnings">,
  output: Output,
): Log {
  const how = {
    format: options["log-format"],
    level: options["log-level"],
  };
  const main = createLog({ ...how, write: lineWriter(output.stdout) });
  // Not through the console, which OpenTelemetry would export as an error.
  const write = (line: string) => output.stderr.add(line);
  const log = options["audit-log"] === "stdout"
    ? main
    : withAudit(main, createLog({ ...how, write }));
  output.stdout.onRoom = (lines) => log.warn("rep.log.dropped", { lines });
  logRuntimeWarnings(log);
  for (const detail of warnings) log.warn("rep.start.warning", { detail });
  return log;
}

/** Returns a log that passes audit events to another one. */
function withAudit(log: Log, audit: Log): Log {
  return logThrough((level, event, fields) => {
    const chosen = event === AUDIT_EVENT ? audit : log;
    chosen[level](event, fields);
  });
}

/**
 * Returns a function that writes log lines of all levels. If Deno exports the console and prints it (`capture`), it uses
 * `console.log`, which waits for the reader of standard output: Deno prints warnings and errors on standard error. If
 * Deno exports the console instead of printing it (`replace`), it calls the console's method for the level, so that Deno
 * exports the level, and also writes the line itself.
 */
function lineWriter(
  queue: LineQueue,
): (line: string, level: LogLevel) => void {
  const { debug, log, info, warn, error } = console; // before logRuntimeWarnings() replaces them
  const exporters = { debug, info, warn, error };
  const byDefault = isTelemetryEnabled() ? "capture" : "ignore";
  const mode = readVariable("OTEL_DENO_CONSOLE") || byDefault;
  if (mode === "capture") return (line) => log(line);
  return (line, level) => {
    queue.add(line);
    if (mode === "replace") exporters[level](line);
  };
}

/** Opens OpenTelemetry if it is enabled. If its package is missing, the gateway runs without it. */
export async function openTelemetryIfEnabled(
  log: Log,
): Promise<Telemetry | undefined> {
  try {
    return await openTelemetry();
  } catch (error) {
    log.warn("rep.telemetry.unavailable", { detail: messageOf(error) });
    return undefined;
  }
}

/** The flag that a warning of `Deno.serve` recommends. */
const UNWANTED_FLAG = "--unstable-no-legacy-abort";

/** The methods of the console with which Deno and libraries print. */
const PRINTERS = ["debug", "log", "info", "warn", "error", "trace"] as const;

/**
 * Logs what Deno and libraries print with the console, so that the output consists of log lines only, and none of them
 * waits for its reader.
 *
 * It leaves out the warning that `Deno.serve` also aborts `request.signal` after a successful response, since operators
 * cannot do anything about it. The proxy needs that signal, because nothing else reports a client that disconnects before
 * the response, and stops using it when the response begins.
 */
export function logRuntimeWarnings(log: Log): void {
  for (const name of PRINTERS) {
    // deno-lint-ignore no-console -- it is replaced, not called
    console[name] = (...data) => {
      const detail = data.map(describeError).join(" ");
      if (detail.includes(UNWANTED_FLAG)) return;
      log.warn("rep.runtime.warning", { detail });
    };
  }
}

/**
 * Logs the warnings of Node.js's modules as well, which Node.js's own listener would print. Deno takes 15 ms to load what
 * that needs: it is for gateways that use such modules anyway.
 */
export async function logNodeWarnings(log: Log): Promise<void> {
  const { default: process } = await import("node:process");
  process.removeAllListeners("warning");
  process.on("warning", (warning) => {
    log.warn("rep.runtime.warning", { detail: `${warning}` });
  });
}

/**
 * Logs why the gateway could not start, prints it, and ends the process: with code 2 if the usage was invalid, otherwise
 * with 1. If a terminal shows both standard output and standard error, it only prints it.
 *
 * @param log By default, a log in JSON, since the options are unknown.
 */
export async function exitWithStartError(
  error: unknown,
  output: Output,
  log: Log = createLog({ write: lineWriter(output.stdout) }),
): Promise<never> {
  const isShownTwice = Deno.stdout.isTerminal() && Deno.stderr.isTerminal();
  if (!isShownTwice) logStartError(error, log);
  output.stderr.add(escapeLines(startErrorMessage(error))); // people read standard error, programs the log
  return await output.exit(error instanceof UsageError ? 2 : 1);
}

/** Returns the message for an error. If the gateway rejects an option, the message contains the flag of the option. */
export function startErrorMessage(error: unknown): string {
  if (!(error instanceof OptionError)) return messageOf(error);
  const { option, expected, got } = error;
  return `Cannot use ${flagOf(option)}: expected ${expected}, got ${got}`;
}

/** Returns the flag of a gateway's option: `sessionKeyTtlMs` is `--session-key-ttl`, whose value contains the unit. */
function flagOf(option: string): string {
  const name = option.replace(/(Ms|Bytes)$/, "");
  return `--${name.replace(/[A-Z]/g, "-$&").toLowerCase()}`;
}

/** Logs `rep.start.failed`. A list of issues gets its own field. */
function logStartError(error: unknown, log: Log): void {
  const issues = error instanceof ConfigurationError && error.issues.length > 1
    ? error.issues
    : undefined;
  const detail = issues
    ? `Cannot use the configuration: it has ${issues.length} issues`
    : startErrorMessage(error);
  log.error("rep.start.failed", { detail, issues });
}
