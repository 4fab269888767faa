import { Budget } from "../values/budget.ts";
import type { Clock } from "../values/clock.ts";
import type { Log, LogFields } from "../observe/log.ts";
import { RejectionLog } from "../observe/rejection_log.ts";

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
  /** How many may be open in all. */
  max: number;
  /** How many one client may have open, so that it leaves room for others. */
  maxPerClient: number;
  /** What all gateways of the process may have open. @default {no further limit} */
  shared?: Budget | undefined;
}

/** The key for counting rejections because of the total limit. No client has this key. */
const ANY_CLIENT = "";

/** Counts what clients have open, in all and per client, and logs what is rejected. */
export class ClientLimits<Name extends string> {
  readonly #options: ClientLimitsOptions<Name>;
  readonly #rejections: RejectionLog;
  readonly #own: Budget;

  constructor(options: ClientLimitsOptions<Name>) {
    this.#options = options;
    const { clock, log, event, max, maxPerClient } = options;
    this.#own = new Budget(max, maxPerClient);
    this.#rejections = new RejectionLog({
      clock,
      log,
      summaryEvent: event,
      summaryFields: (client) => this.#fieldsOf(client),
    });
  }

  /** How many there are in all. */
  get count(): number {
    return this.#own.count;
  }

  /** Returns the limit that keeps a client from opening one more; `undefined` if none does. */
  limitOf(
    { clientKey }: CountedClient,
  ): Name | `${Name}_per_client` | undefined {
    const { name, shared } = this.#options;
    const limit = this.#own.limitOf(clientKey) ?? shared?.limitOf(clientKey);
    if (limit === undefined) return undefined;
    return limit === "client" ? `${name}_per_client` : name;
  }

  /** Returns {@linkcode limitOf} a client that asks for one more, and logs the rejection. */
  rejection(client: CountedClient): Name | `${Name}_per_client` | undefined {
    const limit = this.limitOf(client);
    if (limit === this.#options.name) this.#report(ANY_CLIENT, ANY_CLIENT);
    else if (limit) this.#report(client.clientKey, client.address);
    return limit;
  }

  /** Counts what was opened. */
  add(clientKey: string): void {
    this.#own.add(clientKey);
    this.#options.shared?.add(clientKey);
  }

  /** Counts what has ended. */
  remove(clientKey: string): void {
    this.#own.remove(clientKey);
    this.#options.shared?.remove(clientKey);
  }

  /** Logs the rejections that have only been counted so far. */
  close(): void {
    this.#rejections.close();
  }

  #report(key: string, address: string): void {
    const fields = { ...this.#fieldsOf(address), rejected: 1 };
    const { event } = this.#options;
    this.#rejections.report({ key, reason: "rejected", event, fields });
  }

  /** Returns the fields of a line of the log: which limit was reached, and by whom. */
  #fieldsOf(client: string): LogFields {
    const { name } = this.#options;
    if (client === ANY_CLIENT) return { limit: name };
    return { limit: `${name}_per_client`, client_ip: client };
  }
}
