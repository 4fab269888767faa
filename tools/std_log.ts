/**
 * The part of `@std/log` that `src/core/observe/log.ts` uses, for networks without JSR: it is the only `@std` package that npm
 * lacks. Names and behaviour are those of `@std/log@0.224`. The published gateway never loads this file.
 */

/** Level numbers by name, as in `@std/log/levels`. */
export const LogLevels = {
  NOTSET: 0,
  DEBUG: 10,
  INFO: 20,
  WARN: 30,
  ERROR: 40,
  CRITICAL: 50,
} as const;

export type LevelName = keyof typeof LogLevels;

/** A log line before it is formatted. */
export interface LogRecord {
  readonly msg: string;
  readonly args: unknown[];
  readonly datetime: Date;
  readonly levelName: string;
  readonly level: number;
}

export type FormatterFunction = (record: LogRecord) => string;

/** A destination of records, as in `@std/log/base-handler`. */
export abstract class BaseHandler {
  readonly #level: number;
  formatter: FormatterFunction;

  constructor(
    levelName: LevelName,
    { formatter }: { formatter: FormatterFunction },
  ) {
    this.#level = LogLevels[levelName];
    this.formatter = formatter;
  }

  handle(record: LogRecord): void {
    if (record.level >= this.#level) this.log(this.formatter(record));
  }

  abstract log(msg: string): void;
}

/** A source of records, as in `@std/log/logger`. */
export class Logger {
  readonly #level: number;
  readonly #handlers: BaseHandler[];

  constructor(
    _name: string,
    levelName: LevelName,
    { handlers }: { handlers: BaseHandler[] },
  ) {
    this.#level = LogLevels[levelName];
    this.#handlers = handlers;
  }

  debug(msg: string, ...args: unknown[]): void {
    this.#log("DEBUG", msg, args);
  }

  info(msg: string, ...args: unknown[]): void {
    this.#log("INFO", msg, args);
  }

  warn(msg: string, ...args: unknown[]): void {
    this.#log("WARN", msg, args);
  }

  error(msg: string, ...args: unknown[]): void {
    this.#log("ERROR", msg, args);
  }

  #log(levelName: LevelName, msg: string, args: unknown[]): void {
    const level = LogLevels[levelName];
    if (level < this.#level) return;
    const record = { msg, args, datetime: new Date(), levelName, level };
    for (const handler of this.#handlers) handler.handle(record);
  }
}
