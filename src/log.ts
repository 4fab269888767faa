import { BaseHandler, type LogRecord } from "@std/log/base-handler";
import { Logger } from "@std/log/logger";

/** What a log line says beside its event: names and plain values, never a key or a variable's value. */
export type LogFields = Record<string, string | number | boolean | readonly string[] | undefined>;

/**
 * Where the gateway writes what happens: an event's name, such as `rep.session_key.issued`, and its fields.
 * The names are those of REP's security model, §Audit Logging.
 */
export interface Log {
  /** What only somebody looking for a fault wants to see. */
  debug(event: string, fields?: LogFields): void;
  /** What happened as it should; the audit log is on this level. */
  info(event: string, fields?: LogFields): void;
  /** What was refused, or goes on with less than it should have. */
  warn(event: string, fields?: LogFields): void;
  /** What failed and needs somebody. */
  error(event: string, fields?: LogFields): void;
}

/** Settings of {@linkcode createLog}. */
export interface LogOptions {
  /** How a line looks. @default {"json"} */
  format?: "json" | "text";
  /** The least important level that is written. @default {"info"} */
  level?: "debug" | "info" | "warn" | "error";
  /** Takes a finished line, without its line end. @default {console.log} */
  write?: (line: string) => void;
}

/** A log that writes nothing. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** Makes a log over `@std/log` that writes one line an event, as JSON or as `key=value` text. */
export function createLog(options: LogOptions = {}): Log {
  const { format = "json", level = "info", write = toConsole } = options;
  const formatter = format === "json" ? formatJson : formatText;
  const handler = new LineHandler(write, formatter);
  const levelName = level.toUpperCase() as "DEBUG" | "INFO" | "WARN" | "ERROR";
  const logger = new Logger("rep", levelName, { handlers: [handler] });
  return {
    debug: (event, fields) => void logger.debug(event, fields),
    info: (event, fields) => void logger.info(event, fields),
    warn: (event, fields) => void logger.warn(event, fields),
    error: (event, fields) => void logger.error(event, fields),
  };
}

class LineHandler extends BaseHandler {
  readonly #write: (line: string) => void;

  constructor(write: (line: string) => void, formatter: (record: LogRecord) => string) {
    super("NOTSET", { formatter }); // the logger has filtered by level already
    this.#write = write;
  }

  override log(line: string): void {
    try {
      this.#write(line);
    } catch {
      // A full disk or a closed pipe behind the log must not take the service down with it.
    }
  }
}

function toConsole(line: string): void {
  // deno-lint-ignore no-console -- the one way out for log lines; OpenTelemetry captures it here
  console.log(line);
}

function fieldsOf({ args }: LogRecord): LogFields {
  return (args[0] ?? {}) as LogFields;
}

function formatJson(record: LogRecord): string {
  const { datetime, levelName, msg } = record;
  return quoted({ time: datetime, level: levelName, msg, ...fieldsOf(record) });
}

function formatText(record: LogRecord): string {
  const fields = Object.entries(fieldsOf(record))
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${textValue(value)}`);
  const { datetime, levelName, msg } = record;
  return [datetime.toISOString(), levelName.padEnd(5), msg, ...fields].join(" ");
}

/** Quotes what could be mistaken for another field, or for another line. */
function textValue(value: LogFields[string]): string {
  const text = Array.isArray(value) ? value.join(",") : String(value);
  return /^[\w.:/@+,-]+$/.test(text) ? text : quoted(text);
}

/** JSON without the controls that it leaves alone: terminals may obey U+009B, viewers break lines or turn text round. */
function quoted(value: unknown): string {
  return JSON.stringify(value).replace(/[\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g, escaped);
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
