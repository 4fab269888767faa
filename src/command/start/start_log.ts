import {
  AUDIT_EVENT,
  createLog,
  type Log,
  type LogLevel,
  logThrough,
  messageOf,
  printLine,
} from "../../core/observe/log.ts";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import { UsageError } from "../options/read_options.ts";
import { OptionError } from "../../core/values/option_error.ts";
import type { Telemetry } from "../../core/observe/telemetry.ts";
import { openTelemetry } from "../../addons/telemetry/open_telemetry.ts";
import { isGranted } from "../../core/values/runtime.ts";
import type { Start } from "../options/read_start.ts";
import { writeLine } from "./write_line.ts";

/** Creates the log of a command, with audit events where `--audit-log` says, and writes the command's warnings to it. */
export function openLog(
  { options, warnings }: Pick<Start, "options" | "warnings">,
): Log {
  const how = {
    format: options["log-format"],
    level: options["log-level"],
  };
  const stdout = createLog({ ...how, write: lineWriter() });
  const log = options["audit-log"] === "stdout"
    ? stdout
    : withAudit(stdout, createLog({ ...how, write: writeErrorLine }));
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

/** Not through the console, which OpenTelemetry would export as an error. */
function writeErrorLine(line: string): void {
  writeLine(line, Deno.stderr);
}

/**
 * Returns a function that writes log lines of all levels to standard output. It uses `console.log`, since Deno prints
 * warnings and errors on standard error. If Deno exports the console instead of printing it, the function calls the
 * console's method for the level, so that Deno exports the level, and writes to standard output itself.
 */
function lineWriter(): (line: string, level: LogLevel) => void {
  const variable = "OTEL_DENO_CONSOLE";
  const isExportedOnly = isGranted({ name: "env", variable }) &&
    Deno.env.get(variable) === "replace";
  if (!isExportedOnly) return printLine;
  const { debug, info, warn, error } = console; // before logRuntimeWarnings() replaces one
  const exporters = { debug, info, warn, error };
  return (line, level) => {
    exporters[level](line);
    writeLine(line);
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

/**
 * Logs what Deno prints with `console.warn`, so that the output consists of log lines only.
 *
 * It leaves out the warning that `Deno.serve` also aborts `request.signal` after a successful response, since operators
 * cannot do anything about it. The proxy needs that signal, because nothing else reports a client that disconnects before
 * the response, and stops using it when the response begins.
 */
export function logRuntimeWarnings(log: Log): void {
  // deno-lint-ignore no-console -- it is replaced, not called
  console.warn = (...data: unknown[]) => {
    const detail = data.join(" ");
    if (!detail.includes(UNWANTED_FLAG)) {
      log.warn("rep.runtime.warning", { detail });
    }
  };
}

/**
 * Logs why the gateway could not start, prints it, and ends the process: with code 2 if the usage was invalid, otherwise
 * with 1. If a terminal shows both standard output and standard error, it only prints it.
 *
 * @param log By default, a log in JSON, since the options are unknown.
 */
export function exitWithStartError(
  error: unknown,
  log: Log = createLog({ write: lineWriter() }),
): never {
  const isShownTwice = Deno.stdout.isTerminal() && Deno.stderr.isTerminal();
  if (!isShownTwice) logStartError(error, log);
  // deno-lint-ignore no-console -- people read standard error, programs the log
  console.error(startErrorMessage(error));
  Deno.exit(error instanceof UsageError ? 2 : 1);
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
