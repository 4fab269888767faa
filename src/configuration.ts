import type { Publication } from "./changes/publisher.ts";
import {
  buildSnapshot,
  ConfigurationError,
  countVariables,
  EMPTY_SNAPSHOT,
  hasSameVariables,
  type Snapshot,
  type SnapshotInput,
} from "./config/snapshot.ts";
import type { Log } from "./observe/log.ts";
import { type Metrics, noMetrics } from "./observe/metrics.ts";
import { type Clock, sleep } from "./values/clock.ts";

/**
 * Makes the public state in the store equal to a snapshot's, and publishes an event for each of the unpublished names
 * (see `PublishOptions`). Returns `undefined` without doing so while another configuration is active.
 */
export type Publish = (snapshot: Snapshot, unpublished: ReadonlySet<string>) => Promise<Publication | undefined>;

/** Options of {@linkcode Configuration}. */
interface ConfigurationOptions {
  /** Reads all sources. */
  read: () => Promise<SnapshotInput>;
  publish: Publish;
  clock: Clock;
  log: Log;
  /** @default {noMetrics} */
  metrics?: Metrics;
}

/** The first and the longest pause before a failed publication is retried, in milliseconds. */
const RETRY_MS = [1_000, 30_000] as const;

/** This process's configuration, and how it is replaced: as a whole, or not at all. */
export class Configuration {
  readonly #options: ConfigurationOptions;
  readonly #metrics: Metrics;
  readonly #stop = new AbortController();
  #snapshot = EMPTY_SNAPSHOT;
  #isLoaded = false;
  #cursor = 0;
  /** The last snapshot that needed no further publication. */
  #published: Snapshot | undefined;
  /**
   * Names whose values pages may have, since they were served, although the store was unavailable until they changed.
   */
  #unpublished: ReadonlySet<string> = new Set();
  /** The issues for which the last reload was rejected. */
  #rejection: string | undefined;
  #blocked = 0;
  #queuedReload: Promise<void> | undefined;
  #runningReload: Promise<void> = Promise.resolve();
  #publishing: Promise<unknown> = Promise.resolve();
  #retrying: Promise<void> | undefined;
  #retryPause = new AbortController();

  constructor(options: ConfigurationOptions) {
    this.#options = options;
    this.#metrics = options.metrics ?? noMetrics;
  }

  /**
   * Reads the configuration for the first time. Nothing outside the process changes before {@linkcode publish}.
   *
   * @throws {ConfigurationError} If the configuration is invalid.
   */
  async load(): Promise<void> {
    this.#snapshot = await buildSnapshot(await this.#options.read());
    this.#isLoaded = true;
    const { warnings } = this.#snapshot;
    this.#options.log.info("rep.config.loaded", { ...countVariables(this.#snapshot), warnings: warnings.length });
    this.#logFindings(this.#snapshot, undefined);
  }

  /** The variables as they were last read and found valid; none before {@linkcode load}. */
  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  /**
   * The id of the newest event that the snapshot contains, from which its pages follow the log. It may lag behind the
   * snapshot: then a page is sent events that it contains already, and misses none.
   */
  get cursor(): number {
    return this.#cursor;
  }

  /** Whether the last reload was rejected. */
  get isRejected(): boolean {
    return this.#rejection !== undefined;
  }

  /** The number of changes that strict mode has rejected. A change that is found again counts once. */
  get blocked(): number {
    return this.#blocked;
  }

  /**
   * Reads the sources again and makes the result the current configuration. Calls that arrive while a reload is queued
   * share it. After {@linkcode close} it does nothing.
   *
   * @throws {ConfigurationError} If the configuration is invalid; then everything stays as it was.
   */
  reload(): Promise<void> {
    this.#queuedReload ??= this.#runningReload.catch(() => {}).then(() => {
      this.#queuedReload = undefined;
      if (this.#stop.signal.aborted) return;
      return this.#runningReload = this.#reload();
    });
    return this.#queuedReload;
  }

  async #reload(): Promise<void> {
    const before = this.#snapshot;
    try {
      this.#snapshot = await buildSnapshot(await this.#options.read());
    } catch (error) {
      throw this.#reject(error);
    }
    if (this.#stop.signal.aborted) return; // the shutdown has not waited for the sources
    const isRecovery = this.#rejection !== undefined;
    this.#rejection = undefined;
    this.#logFindings(this.#snapshot, before);
    if (before !== this.#published) this.#noteUnpublished(before);
    await this.publish();
    const isUnchanged = hasSameVariables(this.#snapshot, before);
    this.#metrics.count("rep.config.reloads", 1, isUnchanged ? "unchanged" : "applied");
    // A poll that finds no change is not worth a line, but the end of what `rep.config.rejected` has announced is.
    const level = isUnchanged && !isRecovery ? "debug" : "info";
    this.#options.log[level]("rep.config.reloaded", { ...countVariables(this.#snapshot) });
  }

  /** Pages had the values of a snapshot that is replaced before it was published. */
  #noteUnpublished(replaced: Snapshot): void {
    const names = [...replaced.public.keys(), ...this.#snapshot.public.keys()];
    const changed = names.filter((name) => replaced.public.get(name) !== this.#snapshot.public.get(name));
    this.#unpublished = new Set([...this.#unpublished, ...changed]);
  }

  #reject(error: unknown): unknown {
    const { issues, blocked } = error instanceof ConfigurationError ? error : { issues: [String(error)], blocked: 0 };
    const rejection = issues.join("\n");
    if (rejection !== this.#rejection) this.#blocked += blocked; // every poll finds the same change
    this.#rejection = rejection;
    this.#metrics.count("rep.config.reloads", 1, "rejected");
    this.#options.log.error("rep.config.rejected", { detail: "the previous configuration stays active", issues });
    return error;
  }

  /** Logs the guardrail warnings, deprecations and suspicious names that the previous snapshot did not have. */
  #logFindings({ warnings, deprecated, suspicious }: Snapshot, before: Snapshot | undefined): void {
    const known = new Set([...before?.warnings ?? []].map(({ name, detail }) => `${name} ${detail}`));
    for (const { name, detection, detail } of warnings) {
      if (known.has(`${name} ${detail}`)) continue;
      this.#options.log.warn("rep.guardrail.warning", { variable_name: name, detection_type: detection, detail });
    }
    const old = new Set(before?.deprecated.map(({ name }) => name));
    for (const { name, message } of deprecated.filter(({ name }) => !old.has(name))) {
      this.#options.log.warn("rep.config.deprecated", { variable_name: name, detail: message });
    }
    const suspected = new Set(before?.suspicious.map(({ name }) => name));
    for (const { name, detail } of suspicious.filter(({ name }) => !suspected.has(name))) {
      this.#options.log.warn("rep.config.suspicious_name", { variable_name: name, detail });
    }
  }

  /**
   * Publishes the current configuration, also when it becomes active again after another one. If the store is
   * unavailable, it returns, and retries in the background.
   */
  async publish(): Promise<void> {
    if (!this.#isLoaded || this.#stop.signal.aborted) return;
    try {
      await this.#publishOnce();
    } catch (error) {
      this.#options.log.error("rep.config.not_published", { detail: `${error}; retrying` });
      this.#retrying ??= this.#retry().finally(() => this.#retrying = undefined);
    }
  }

  /** Publishes the newest snapshot, one publication at a time: of two at once, the older could be written last. */
  async #publishOnce(): Promise<void> {
    const publication = this.#publishing.then(() => this.#publishSnapshot(this.#snapshot, this.#unpublished));
    this.#publishing = publication.catch(() => {}); // the caller handles the rejection
    this.#logPublication(await publication);
  }

  async #publishSnapshot(snapshot: Snapshot, unpublished: ReadonlySet<string>): Promise<Publication | undefined> {
    const publication = await this.#options.publish(snapshot, unpublished);
    this.#published = snapshot;
    if (publication !== undefined) this.#unpublished = this.#unpublished.difference(unpublished);
    return publication;
  }

  /** Retries a failed publication now, if there is one, instead of after its pause. */
  retryNow(): void {
    this.#retryPause.abort();
  }

  async #retry(): Promise<void> {
    const { signal } = this.#stop;
    for (let pauseMs: number = RETRY_MS[0];; pauseMs = Math.min(2 * pauseMs, RETRY_MS[1])) {
      this.#retryPause = new AbortController();
      await sleep(pauseMs, this.#options.clock, { signal: AbortSignal.any([signal, this.#retryPause.signal]) });
      if (signal.aborted) return;
      try {
        return await this.#publishOnce();
      } catch (error) {
        this.#options.log.debug("rep.config.not_published", { detail: String(error) });
      }
    }
  }

  #logPublication(publication: Publication | undefined): void {
    if (publication === undefined) return;
    const { events, head } = publication;
    this.#cursor = head;
    this.#metrics.count("rep.events.published", events.length);
    for (const { name, value, id } of events) {
      const action = value === undefined ? "delete" : "update";
      this.#options.log.info("rep.config.changed", { key: name, tier: "public", action, id });
    }
  }

  /** Waits for a reload that is running, and ends the retries. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#runningReload.catch(() => {}); // its caller handles the rejection
    await this.#retrying;
  }
}
