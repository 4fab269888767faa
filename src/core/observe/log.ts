import { BaseHandler, type LogRecord } from "@std/log/base-handler";
import { Logger } from "@std/log/logger";
import { redactCredentials } from "../values/urls.ts";
import { visibleJson } from "../values/visible_text.ts";

/** The fields of a log line. They never contain a key or the value of a SENSITIVE or SERVER variable. */
export type LogFields = Record<
  string,
  string | number | boolean | readonly string[] | undefined
>;

/**
 * A structured log. Each line has an event name, such as `rep.session_key.issued`, and fields. The names of audit
 * events are those of REP's security model, §Audit Logging.
 */
export interface Log {
  /** Logs details for debugging. */
  debug(event: string, fields?: LogFields): void;
  /** Logs normal operation, audit events included. */
  info(event: string, fields?: LogFields): void;
  /** Logs a rejected request or degraded operation. */
  warn(event: string, fields?: LogFields): void;
  /** Logs a failure that an operator has to look into. */
  error(event: string, fields?: LogFields): void;
}

/** How important a line is. */
export type LogLevel = "debug" | "info" | "warn" | "error";

/** Options of {@linkcode createLog}. */
export interface LogOptions {
  /** Log format: one JSON object or `key=value` text per line. @default {"json"} */
  format?: "json" | "text";
  /** The lowest level that is written. Issued session keys are written at any level. @default {"info"} */
  level?: LogLevel;
  /**
   * Writes a line, which has no line terminator. With `OTEL_DENO_CONSOLE=replace`, `console[level](line)` only exports
   * it, with its level. The default waits for the reader of standard output, and all requests wait with it.
   *
   * @default {console.log}
   */
  write?: (line: string, level: LogLevel) => void;
}

/** The event of every issued key, which is written at any level (endpoint specification, Audit event). */
export const AUDIT_EVENT = "rep.session_key.issued";

/** A log that discards everything. */
export const silentLog: Log = logThrough(() => {});

/** Returns the message of an error, or of any other value that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Describes an unexpected error for the `detail` of an event: with its stack, if it has one. */
export function describeError(error: unknown): string {
  return error instanceof Error ? error.stack ?? error.message : String(error);
}

/** Returns a callback that logs an error of a recurring task as `rep.task.failed`. */
export function logTaskError(log: Log, task: string): (error: unknown) => void {
  return (error) =>
    log.error("rep.task.failed", { task, detail: describeError(error) });
}

/** Prints a line on standard output. */
function printLine(line: string): void {
  // deno-lint-ignore no-console -- log lines are written here only; OpenTelemetry captures the console
  console.log(line);
}

/** Quotes text that could be read as another field or another line. */
function formatField(value: LogFields[string]): string {
  const text = Array.isArray(value) ? value.join("; ") : String(value);
  return /^[\w.:/@+,-]+$/.test(text) ? text : visibleJson(text);
}

function getFields({ args }: LogRecord): LogFields {
  return (args[0] ?? {}) as LogFields;
}

function formatJson(record: LogRecord): string {
  const { datetime: time, levelName: level, msg } = record;
  return visibleJson({ time, level, msg, ...getFields(record) });
}

function formatText(record: LogRecord): string {
  const { datetime, levelName, msg } = record;
  const words = [datetime.toISOString(), levelName.padEnd(5), msg];
  for (const [name, value] of Object.entries(getFields(record))) {
    if (value !== undefined) words.push(`${name}=${formatField(value)}`);
  }
  return words.join(" ");
}

class LineHandler extends BaseHandler {
  readonly #write: (line: string, level: LogLevel) => void;

  constructor(
    write: (line: string, level: LogLevel) => void,
    formatter: (record: LogRecord) => string,
  ) {
    super("NOTSET", { formatter }); // the logger filters by level
    this.#write = write;
  }

  override handle(record: LogRecord): void {
    const level = record.levelName.toLowerCase() as LogLevel;
    const line = this.formatter(record);
    try {
      this.#write(redactCredentials(line), level);
    } catch (error) {
      // A full disk or a closed pipe must not take the gateway down. But no key is issued without its line.
      if (record.msg === AUDIT_EVENT) throw error;
    }
  }

  override log(): void {} // what the base class calls instead, without the level
}

/**
 * Creates a log, based on `@std/log`, that writes one line per event. Credentials of URLs are replaced, since error
 * messages of Deno contain them. Errors of `write` are ignored, except for an issued session key: it is then rejected.
 */
export function createLog(options: LogOptions = {}): Log {
  const { format = "json", level = "info", write = printLine } = options;
  const formatter = format === "json" ? formatJson : formatText;
  const handler = new LineHandler(write, formatter);
  const levelName = level.toUpperCase() as "DEBUG" | "INFO" | "WARN" | "ERROR";
  const logger = new Logger("rep", levelName, { handlers: [handler] });
  const auditLogger = new Logger("rep", "INFO", { handlers: [handler] });
  return logThrough((level, event, fields) => {
    const chosen = event === AUDIT_EVENT ? auditLogger : logger;
    chosen[level](event, fields);
  });
}

/** Returns a log that writes an event with the same `detail` only once. There must not be many different ones. */
export function logOnce(log: Log): Log {
  const written = new Set<string>();
  return logThrough((level, event, fields) => {
    const line = `${event} ${fields?.["detail"]}`;
    if (!written.has(line)) log[level](event, fields);
    written.add(line);
  });
}

/** Returns a log that passes each line to a function. */
export function logThrough(
  pass: (level: LogLevel, event: string, fields?: LogFields) => void,
): Log {
  return {
    debug: (event, fields) => pass("debug", event, fields),
    info: (event, fields) => pass("info", event, fields),
    warn: (event, fields) => pass("warn", event, fields),
    error: (event, fields) => pass("error", event, fields),
  };
}
