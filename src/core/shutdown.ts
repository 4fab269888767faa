import type { Changes } from "./changes/changes.ts";
import type { Configuration } from "./config/configuration.ts";
import type { Addition } from "./addon.ts";
import type { Content } from "./content.ts";
import type { Transfers } from "./http/transfers.ts";
import type { Health } from "./endpoints/health.ts";
import type { SessionKeys } from "./endpoints/session_key.ts";
import type { Log } from "./observe/log.ts";
import { type Clock, waitAtMost } from "./values/clock.ts";

/** Options of `Gateway.close()`. */
export interface CloseOptions {
  /**
   * Time within which requests and WebSockets may finish, in milliseconds. Streams end over this time if another replica
   * lives, and at once otherwise.
   *
   * @default {0}
   */
  drainMs?: number;
  /**
   * Closes the ports, and resolves when no request is in flight. Called as soon as no body of a request is being
   * received and no proxied WebSocket is open, since `Deno.HttpServer.shutdown` breaks both.
   *
   * @default {the caller closes the ports}
   */
  stopListening?: () => Promise<void>;
}

/** Options of {@linkcode Shutdown}. */
interface ShutdownOptions {
  readonly content: Content | undefined;
  readonly transfers: Transfers;
  /** `undefined` without hot reload. */
  readonly changes: Changes | undefined;
  readonly configuration: Configuration;
  readonly health: Health;
  readonly sessionKeys: SessionKeys;
  /** What add-ons have added. */
  readonly additions: readonly Addition[];
  /** Aborted to end what runs in the background. */
  readonly background: AbortController;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * How long a shutdown waits for the store, and for a reload, whose sources may never answer. If the store fails, the
 * other replicas notice the missing heartbeat instead.
 */
export const LEAVE_TIMEOUT_MS = 1_000;

/** The end of a gateway: it is announced, then nothing new begins, and what is in flight has some time to finish. */
export class Shutdown {
  readonly #options: ShutdownOptions;
  #closing: Promise<void> | undefined;

  constructor(options: ShutdownOptions) {
    this.#options = options;
  }

  /** Announces the shutdown, while everything is still served. */
  begin(): void {
    const { health, changes } = this.#options;
    health.isStopping = true;
    void changes?.stop(); // close() waits for it
  }

  /** Waits for what `Deno.HttpServer.shutdown()` breaks, and logs what it will break. */
  async finishIncoming(ms: number): Promise<void> {
    const { transfers, clock } = this.#options;
    await waitAtMost(ms, transfers.incomingIdle(), clock);
    this.#logCutOff(transfers.uploads.count);
  }

  /** Ends what is open and in flight, then what runs in the background. */
  close(options: CloseOptions = {}): Promise<void> {
    this.#closing ??= this.#close(options);
    return this.#closing;
  }

  async #close({ drainMs = 0, stopListening }: CloseOptions): Promise<void> {
    const { content, transfers, changes, clock } = this.#options;
    this.begin();
    let closing: Promise<void> | undefined;
    const closePorts = () => closing ??= stopListening?.();
    await Promise.all([
      this.#endStreams(drainMs),
      waitAtMost(drainMs, this.#finishRequests(closePorts), clock),
    ]);
    this.#logCutOff(transfers.requests);
    content?.close(); // ends the remaining WebSockets, so that the ports are closed
    transfers.close();
    changes?.polls.close();
    this.#options.background.abort();
    for (const addition of this.#options.additions) addition.close?.();
    void closePorts(); // uploads have been cut off
    const leaving = Promise.all([
      this.#options.configuration.close(),
      changes?.leave(),
    ]);
    await waitAtMost(LEAVE_TIMEOUT_MS, leaving, clock);
    this.#options.sessionKeys.close();
  }

  /**
   * Ends the streams: over some time, so that their clients do not all reconnect to another replica at once. Without
   * another one, nobody could reach this process in the meantime, or the one after it: they end at once.
   */
  async #endStreams(drainMs: number): Promise<void> {
    const { changes, clock } = this.#options;
    if (changes === undefined) return;
    const waitMs = Math.min(drainMs, LEAVE_TIMEOUT_MS);
    await waitAtMost(waitMs, changes.stop(), clock);
    await changes.hub.close(changes.rollout.isAlone ? 0 : drainMs);
  }

  async #finishRequests(
    closePorts: () => Promise<void> | undefined,
  ): Promise<void> {
    const { transfers } = this.#options;
    await transfers.incomingIdle();
    await Promise.all([closePorts(), transfers.idle()]);
  }

  #logCutOff(requests: number): void {
    if (requests === 0) return;
    this.#options.log.warn("rep.requests.cut_off", { requests });
  }
}
