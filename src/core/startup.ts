import type { BackgroundTasks } from "./background_tasks.ts";
import type { Changes } from "./changes/changes.ts";
import type { Configuration } from "./config/configuration.ts";
import { ConfigurationError } from "./config/variables/snapshot.ts";
import type { StoredVariablesSource } from "./config/stored/stored_variables_source.ts";
import type { Health } from "./endpoints/health.ts";
import { Problem } from "./http/problem.ts";
import { createRoute, type Route } from "./http/routes.ts";
import type { Epochs } from "./keys/epochs.ts";
import type { Log } from "./observe/log.ts";
import type { OwnBuild } from "./own_build.ts";
import type { CoreSettings } from "./settings.ts";
import {
  type Store,
  StoreIncompatibleError,
  StoreUnavailableError,
} from "./store/store.ts";
import { type Clock, sleep } from "./values/clock.ts";

/** Options of {@linkcode Startup}. */
interface StartupOptions {
  /** The part of the app. */
  readonly store: Store;
  readonly settings: Pick<
    CoreSettings,
    "startWithoutStore" | "allowedHosts" | "allowedOrigins"
  >;
  readonly storedVariables: StoredVariablesSource;
  readonly build: OwnBuild;
  readonly configuration: Configuration;
  readonly epochs: Epochs;
  /** `undefined` without hot reload. */
  readonly changes: Changes | undefined;
  readonly tasks: BackgroundTasks;
  /** Adds this app to the index of the store. */
  readonly indexApp: () => Promise<void>;
  readonly health: Health;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the start when it is aborted. */
  readonly signal: AbortSignal;
}

/** How long to wait before the store is read again. While it fails, the circuit breaker does not ask it. */
const PAUSE_MS = 250;

/**
 * The start of a gateway. It goes on until what the gateway needs of its store has been read once: otherwise its pages
 * would have other values than those of the other replicas. Until then, it serves nothing.
 */
export class Startup {
  readonly #options: StartupOptions;
  readonly #ready = Promise.withResolvers<void>();
  readonly #waiting = Promise.withResolvers<void>();
  #isWaiting = false;

  constructor(options: StartupOptions) {
    this.#options = options;
    this.#ready.promise.catch(() => {}); // whoever waits for it handles the rejection
  }

  /** Settles at the end of the start; never, if the gateway is closed before. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /**
   * Begins the start. Resolves when the gateway is ready, or as soon as it waits for its store.
   *
   * @throws {ConfigurationError} If the variables are invalid.
   */
  async begin(): Promise<void> {
    const { signal } = this.#options;
    this.#start().then(this.#ready.resolve, (error) => {
      if (!signal.aborted) this.#ready.reject(error);
    });
    await Promise.race([this.ready, this.#waiting.promise]);
  }

  /**
   * Reads the store and the variables, loads the master key, joins the rollout and publishes what changed. If the variables
   * are invalid, nothing outside the process has changed.
   */
  async #start(): Promise<void> {
    const { configuration, changes, tasks, health, signal } = this.#options;
    health.isStarting = true;
    await this.#options.build.look();
    await this.#untilRead(() => this.#readStoredVariables());
    await this.#untilRead(async () => await changes?.tail.readNew());
    await this.#load(); // after the store, so that the newest files count
    await this.#loadMasterKey();
    await configuration.updateDigests();
    signal.throwIfAborted();
    if (!configuration.isReloadRejected) await configuration.publish();
    signal.throwIfAborted();
    await this.#options.indexApp();
    tasks.start();
    health.isStarting = false;
    this.#warnOfAnyHost();
  }

  /**
   * Loads the configuration. Somebody may have set a value that is invalid under the manifest, which must not end the app
   * at the next restart: if only that is invalid, the gateway has the values that were published before, and reports a
   * rejected reload. While another process lives, it does not start, which stops an update to a manifest that does not fit.
   */
  async #load(): Promise<void> {
    const { store, configuration, changes, clock, log, signal } = this.#options;
    try {
      return await configuration.load();
    } catch (error) {
      if (!(error instanceof ConfigurationError) || !changes?.tail.head) {
        throw error;
      }
      const { publicValues } = changes.tail;
      const isStored = await configuration.load(publicValues)
        .then(() => true, () => false);
      const { hasLivingMember } = await import("./rollout/living_members.ts"); // not without hot reload
      let isAlone = false;
      const look = async () => {
        isAlone = !await hasLivingMember(store, clock, signal);
      };
      if (isStored) await this.#untilRead(look);
      if (!isAlone) throw error;
    }
    await configuration.reload().catch(() => {}); // it logs what is invalid
    const detail =
      "a value in the store is invalid: starting with what was published before, and publishing nothing until it is taken back with undo ID (see history), set or unset";
    log.warn("rep.start.warning", { detail });
  }

  /** The source keeps what it has read, also for later outages. */
  async #readStoredVariables(): Promise<void> {
    const { storedVariables } = this.#options;
    await storedVariables.read();
    if (storedVariables.failure !== undefined) throw storedVariables.failure;
  }

  /** Loads it early, so that a later outage of the store does not turn into rejected requests for session keys. */
  async #loadMasterKey(): Promise<void> {
    const { configuration, epochs } = this.#options;
    const load = () => epochs.keys(epochs.current());
    const isNeeded = configuration.snapshot.sensitive.size > 0;
    if (isNeeded) return await this.#untilRead(load);
    await load().catch(() => {}); // it is tried again; the circuit breaker logs the outage
  }

  /** Repeats a read until the store answers, unless the gateway may start without it. Any other error ends the start. */
  async #untilRead(read: () => Promise<unknown>): Promise<void> {
    const { settings, clock, signal } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      try {
        await read();
        return;
      } catch (error) {
        if (error instanceof StoreIncompatibleError) throw error; // waiting does not help
        if (!(error instanceof StoreUnavailableError)) throw error;
        if (settings.startWithoutStore) return;
        this.#reportWaiting(error);
      }
      await sleep(PAUSE_MS, clock, { signal });
    }
  }

  #reportWaiting({ message }: StoreUnavailableError): void {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    const detail = `not ready until the store has been read: ${message}`;
    this.#options.log.warn("rep.start.waiting", { detail });
    this.#waiting.resolve();
  }

  /** Without HTTPS, a page of any host name that resolves to the gateway's address is of the gateway's own origin. */
  #warnOfAnyHost(): void {
    const { settings, configuration, log } = this.#options;
    const { allowedHosts, allowedOrigins } = settings;
    const isBound = allowedHosts.length > 0 || allowedOrigins.length > 0;
    if (isBound || configuration.snapshot.sensitive.size === 0) return;
    log.warn("rep.start.warning", {
      detail:
        "SENSITIVE variables are served under any host name, which permits DNS rebinding: " +
        "set the allowed hosts or the allowed origins",
    });
  }
}

/** How long clients should wait before they ask a gateway again that waits for its store. */
const RETRY_AFTER_S = 5;

/** Returns the problem of everything that a gateway cannot answer before it is ready. */
export function notReady(): Problem {
  const detail = "The gateway is starting: it has not read its store yet";
  const headers = { "retry-after": String(RETRY_AFTER_S) };
  return new Problem(503, { detail, headers });
}

/** The route of requests before the gateway is ready, except to endpoints with `isServedAtStart`. */
export const NOT_READY_ROUTE: Route = createRoute({
  handler() {
    throw notReady();
  },
}, "/*");
