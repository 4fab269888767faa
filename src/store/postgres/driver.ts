import { messageOf } from "../../observe/log.ts";
import { importPackage } from "../../values/runtime.ts";

const DRIVER: string = "npm:pg@8.23.1";

/** A row of a result; every column that is used is text. */
export type Row = Readonly<Record<string, string | null>>;

/** A statement that the server prepares once per connection, with its parameters. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly values: readonly (string | number | null)[];
}

/** The part of the driver's `Client` that is used. The package has no types of its own. */
export interface Client {
  connect(): Promise<unknown>;
  query(statement: string | Statement): Promise<{ rows: Row[] }>;
  on(event: "error", listener: (error: Error) => void): void;
  on(event: "end", listener: () => void): void;
  on(
    event: "notification",
    listener: (notification: { payload?: string }) => void,
  ): void;
  readonly connection: { readonly stream: { destroy(): void } };
}

interface Driver {
  readonly Client: new (config: Readonly<Record<string, unknown>>) => Client;
}

/**
 * Loads the driver; see {@linkcode importPackage}.
 *
 * @throws {TypeError} If it is neither installed nor can be downloaded.
 */
export async function loadPostgresDriver(): Promise<Driver> {
  try {
    return (await importPackage<{ default: Driver }>(DRIVER)).default;
  } catch (error) {
    throw new TypeError(
      `Cannot load the PostgreSQL driver ${DRIVER}: ${messageOf(error)}`,
    );
  }
}
