import { createGateway, type Gateway } from "../src/gateway.ts";
import type { Store } from "../src/store/store.ts";

/** A gateway whose PUBLIC variables can all be given new values. */
export class ChangingVariables implements AsyncDisposable {
  readonly gateway: Gateway;
  readonly #source: { version: number };

  private constructor(gateway: Gateway, source: { version: number }) {
    this.gateway = gateway;
    this.#source = source;
  }

  /** @param version Of the values at the start. */
  static async start(
    store: Store,
    count: number,
    version = 0,
  ): Promise<ChangingVariables> {
    const source = { version };
    const variables = () => variablesOf(count, source.version);
    return new ChangingVariables(
      await createGateway({ hotReload: true, store, variables }),
      source,
    );
  }

  /** Publishes a change of every variable. */
  async change(): Promise<void> {
    this.#source.version++;
    await this.gateway.reload();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.gateway.close();
  }
}

function variablesOf(count: number, version: number): Record<string, string> {
  return Object.fromEntries(
    Array.from(
      { length: count },
      (
        _,
        index,
      ) => [`REP_PUBLIC_VARIABLE_${index}`, `value ${index} ${version}`],
    ),
  );
}
