import type { Clock } from "../values/clock.ts";
import type { Log, LogFields } from "./log.ts";
import { RejectionLog } from "./rejection_log.ts";

/** The client whose streams or transfers are counted. */
export interface CountedClient {
  /** Its address, for the log. */
  readonly address: string;
  /** What it is counted under. */
  readonly clientKey: string;
}

/** Options of {@linkcode ClientLimits}. */
interface ClientLimitsOptions<Name extends string> {
  clock: Clock;
  log: Log;
  /** The event of the log for rejections. */
  event: string;
  /** The name of the limit, as the log and the metrics name it; that of one client ends in `_per_client`. */
  name: Name;
  /** How many there may be in all. */
  max: number;
  /** How many one client may have, so that it cannot take those of all others. */
  maxPerClient: number;
}

/** Under which the rejections because of the limit in all are counted. No client has this key. */
const ANY_CLIENT = "";

/** Counts what clients have open, in all and per client, and logs what is rejected. */
export class ClientLimits<Name extends string> {
  readonly #event: string;
  readonly #name: Name;
  readonly #max: number;
  readonly #maxPerClient: number;
  readonly #rejections: RejectionLog;
  /** How many each client has that has any. */
  readonly #clients = new Map<string, number>();
  #total = 0;

  constructor(
    { clock, log, event, name, max, maxPerClient }: ClientLimitsOptions<Name>,
  ) {
    this.#event = event;
    this.#name = name;
    this.#max = max;
    this.#maxPerClient = maxPerClient;
    this.#rejections = new RejectionLog({
      clock,
      log,
      summaryEvent: event,
      summaryFields: (client) => this.#fieldsOf(client),
    });
  }

  /** How many there are in all. */
  get count(): number {
    return this.#total;
  }

  /** Returns the limit because of which a client cannot have one more; `undefined` if it can. */
  limitOf(
    { clientKey }: Pick<CountedClient, "clientKey">,
  ): Name | `${Name}_per_client` | undefined {
    if (this.#countOf(clientKey) >= this.#maxPerClient) {
      return `${this.#name}_per_client`;
    }
    return this.#total < this.#max ? undefined : this.#name;
  }

  /** The same for a client that asks for one more: it is logged. */
  rejection(client: CountedClient): Name | `${Name}_per_client` | undefined {
    const limit = this.limitOf(client);
    if (limit === this.#name) this.#report(ANY_CLIENT, ANY_CLIENT);
    else if (limit) this.#report(client.clientKey, client.address);
    return limit;
  }

  /** Counts what was opened. */
  add(clientKey: string): void {
    this.#total++;
    this.#clients.set(clientKey, this.#countOf(clientKey) + 1);
  }

  /** Counts what has ended. */
  remove(clientKey: string): void {
    this.#total--;
    const count = this.#countOf(clientKey) - 1;
    if (count > 0) this.#clients.set(clientKey, count);
    else this.#clients.delete(clientKey);
  }

  /** Counts from the beginning. */
  clear(): void {
    this.#total = 0;
    this.#clients.clear();
  }

  /** Logs the rejections that have only been counted so far. */
  close(): void {
    this.#rejections.close();
  }

  #report(key: string, address: string): void {
    const fields = { ...this.#fieldsOf(address), rejected: 1 };
    const event = this.#event;
    this.#rejections.report({ key, reason: "rejected", event, fields });
  }

  #countOf(clientKey: string): number {
    return this.#clients.get(clientKey) ?? 0;
  }

  /** Returns the fields of a line of the log: which limit was reached, and by whom. */
  #fieldsOf(client: string): LogFields {
    if (client === ANY_CLIENT) return { limit: this.#name };
    return { limit: `${this.#name}_per_client`, client_ip: client };
  }
}
