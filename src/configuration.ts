import { type Clock, sleep } from "./clock.ts";
import type { Publication } from "./events/publisher.ts";
import type { Log } from "./log.ts";
import {
  buildSnapshot,
  ConfigurationError,
  countVariables,
  hasSameVariables,
  type Snapshot,
  type SnapshotInput,
} from "./variables/snapshot.ts";

/** What {@linkcode Configuration} needs. */
export interface ConfigurationOptions {
  /** Reads all sources. */
  read: () => Promise<SnapshotInput>;
  /** Makes the store's public state that of a snapshot; nothing comes of it while another configuration is in force. */
  publish: (snapshot: Snapshot) => Promise<Publication | undefined>;
  clock: Clock;
  log: Log;
}

/** How long a failed publishing waits for its next try, at first and at most. */
const RETRY_MS = [1_000, 30_000] as const;

/** The configuration that is in force, and how it is replaced: whole, or not at all. */
export class Configuration {
  readonly #options: ConfigurationOptions;
  readonly #stop = new AbortController();
  #snapshot: Snapshot;
  #cursor = 0;
  /** What the last reload was refused for. */
  #refusal: string | undefined;
  #blocked = 0;
  #queued: Promise<void> | undefined;
  #running: Promise<void> = Promise.resolve();
  #publishing: Promise<unknown> = Promise.resolve();
  #retrying: Promise<void> | undefined;
  #pause = new AbortController();

  private constructor(options: ConfigurationOptions, snapshot: Snapshot) {
    this.#options = options;
    this.#snapshot = snapshot;
  }

  /**
   * Reads the configuration for the first time, and publishes what changed since the gateway last ran.
   *
   * @throws {ConfigurationError} If there is anything wrong with it.
   */
  static async load(options: ConfigurationOptions): Promise<Configuration> {
    const snapshot = buildSnapshot(await options.read());
    const configuration = new Configuration(options, snapshot);
    options.log.info("rep.config.loaded", { ...countVariables(snapshot), warnings: snapshot.warnings.length });
    configuration.#tellFindings(snapshot, undefined);
    await configuration.#publish();
    return configuration;
  }

  /** What is in force. */
  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  /**
   * The id from which on a page with this snapshot has to follow the log. It may lag behind the snapshot: then the page is told
   * what it has already, and misses nothing.
   */
  get cursor(): number {
    return this.#cursor;
  }

  /** Whether the last reload was refused. */
  get isRefused(): boolean {
    return this.#refusal !== undefined;
  }

  /** How many changes strict mode has refused; one that is found again is still the same. */
  get blocked(): number {
    return this.#blocked;
  }

  /**
   * Reads the sources again and puts what they hold into force. Calls that come while one waits for its turn are that one;
   * after {@linkcode close} there is nothing to be done any more.
   *
   * @throws {ConfigurationError} If there is anything wrong; then everything stays as it was.
   */
  reload(): Promise<void> {
    this.#queued ??= this.#running.catch(() => {}).then(() => {
      this.#queued = undefined;
      if (this.#stop.signal.aborted) return;
      return this.#running = this.#reload();
    });
    return this.#queued;
  }

  async #reload(): Promise<void> {
    const before = this.#snapshot;
    try {
      this.#snapshot = buildSnapshot(await this.#options.read());
    } catch (error) {
      throw this.#refuse(error);
    }
    this.#refusal = undefined;
    this.#tellFindings(this.#snapshot, before);
    await this.#publish();
    const level = hasSameVariables(this.#snapshot, before) ? "debug" : "info"; // a poll that finds nothing new is no news
    this.#options.log[level]("rep.config.reloaded", { ...countVariables(this.#snapshot) });
  }

  #refuse(error: unknown): unknown {
    const { issues, blocked } = error instanceof ConfigurationError ? error : { issues: [String(error)], blocked: 0 };
    const refusal = issues.join("\n");
    if (refusal !== this.#refusal) this.#blocked += blocked; // polling finds the same change again and again
    this.#refusal = refusal;
    this.#options.log.error("rep.config.refused", { detail: "the configuration stays as it was", issues });
    return error;
  }

  /** What a snapshot has that deserves somebody's attention, once. */
  #tellFindings({ warnings, deprecated }: Snapshot, before: Snapshot | undefined): void {
    const known = new Set([...before?.warnings ?? []].map(({ name, detail }) => `${name} ${detail}`));
    for (const { name, detection, detail } of warnings) {
      if (known.has(`${name} ${detail}`)) continue;
      this.#options.log.warn("rep.guardrail.warning", { variable_name: name, detection_type: detection, detail });
    }
    const old = new Set(before?.deprecated.map(({ name }) => name));
    for (const { name, message } of deprecated.filter(({ name }) => !old.has(name))) {
      this.#options.log.warn("rep.config.deprecated", { variable_name: name, detail: message });
    }
  }

  /** Publishes again what this process has: another configuration was in force, and is no more. */
  async publishAgain(): Promise<void> {
    if (!this.#stop.signal.aborted) await this.#publish();
  }

  /** Publishes what is in force; if the store does not answer, again and again, beside everything else. */
  async #publish(): Promise<void> {
    try {
      await this.#publishOnce();
    } catch (error) {
      this.#options.log.error("rep.config.not_published", { detail: `it is tried again: ${error}` });
      this.#retrying ??= this.#retry().finally(() => this.#retrying = undefined);
    }
  }

  /** One at a time, and always the newest: of two at once, the older snapshot could be written last. */
  async #publishOnce(): Promise<void> {
    const turn = this.#publishing.then(() => this.#options.publish(this.#snapshot));
    this.#publishing = turn.catch(() => {}); // whoever asked for it is told
    this.#published(await turn);
  }

  /** Publishes now what could not be published, if there is anything, instead of waiting for its next try. */
  retryNow(): void {
    this.#pause.abort();
  }

  async #retry(): Promise<void> {
    const { signal } = this.#stop;
    for (let pause: number = RETRY_MS[0];; pause = Math.min(2 * pause, RETRY_MS[1])) {
      this.#pause = new AbortController();
      await sleep(pause, this.#options.clock, { signal: AbortSignal.any([signal, this.#pause.signal]) });
      if (signal.aborted) return;
      try {
        return await this.#publishOnce();
      } catch (error) {
        this.#options.log.debug("rep.config.not_published", { detail: String(error) });
      }
    }
  }

  #published(publication: Publication | undefined): void {
    if (publication === undefined) return;
    const { events, head } = publication;
    this.#cursor = head;
    for (const { name, value, id } of events) {
      const action = value === undefined ? "delete" : "update";
      this.#options.log.info("rep.config.changed", { key: name, tier: "public", action, id });
    }
  }

  /** Ends what goes on beside everything else. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running.catch(() => {}); // whoever asked for it has been told
    await this.#retrying;
  }
}
