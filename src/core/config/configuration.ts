import type { Epochs } from "../keys/epochs.ts";
import { type Log, logTaskError } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Clock } from "../values/clock.ts";
import { shortHash } from "../values/hash.ts";
import { SerialQueue } from "../values/serial_queue.ts";
import {
  buildSnapshot,
  ConfigurationError,
  countVariables,
  EMPTY_SNAPSHOT,
  hasSameVariables,
  type Snapshot,
  type SnapshotSources,
  type StoredEnvironment,
} from "./variables/snapshot.ts";
import { digestSecrets, type SecretDigests } from "./secret_digests.ts";
import { allFindings } from "./variables/finding.ts";
import { EMPTIED, isEmptied } from "./variables/tiers.ts";
import type { StoredVariablesSource } from "./stored/stored_variables_source.ts";

interface ConfigurationOptions {
  /** Reads all sources except the store. */
  readSources: () => Promise<SnapshotSources>;
  storedVariables: StoredVariablesSource;
  /** Knows the rank of the newest rollout; `undefined` without hot reload. */
  rollout: { readHighestRank(): Promise<number | undefined> } | undefined;
  /** Publishes the snapshot of each reload; `undefined` without hot reload. */
  publisher: SnapshotPublisher | undefined;
  /** Makes digests of the values that nobody may see. */
  epochs: Pick<Epochs, "digest" | "hasMasterKey">;
  /** What the process was built from, for the log. */
  revision: string | undefined;
  log: Log;
  metrics: Metrics;
  clock: Pick<Clock, "now">;
}

interface SnapshotPublisher {
  /**
   * Publishes a snapshot. It never rejects, and does not wait for a store that is unavailable.
   *
   * @returns Whether a change of PUBLIC values waits until it is read and published again.
   */
  publish(snapshot: Snapshot): Promise<boolean>;
}

/** The possible results of a reload, as the metric names them. */
export const RELOAD_OUTCOMES = ["applied", "unchanged", "rejected"] as const;

type ReloadOutcome = (typeof RELOAD_OUTCOMES)[number];

/** Options of a reload. */
export interface ReloadOptions {
  /**
   * Whether somebody asked for this reload and wants to see its result in the log: a reload without any change is
   * logged at level info instead of debug, one that is rejected for the same issues as before is logged again, and the
   * problem `store_emptied` ends.
   *
   * @default {false}
   */
  isRequested?: boolean;
}

/** How a reload is logged and counted. */
interface ReloadRequest {
  readonly isRequested: boolean;
  readonly isCounted: boolean;
}

/** Receives a variable's new value, `undefined` if it was deleted, and its old value, `undefined` if it is new. */
export type ValueListener = (
  newValue: string | undefined,
  oldValue: string | undefined,
) => void;

/** Why reloads are rejected. */
export interface Rejection {
  readonly issues: readonly string[];
  /** When the first of them was rejected, in milliseconds since the Unix epoch. */
  readonly since: number;
}

const NOT_PUBLISHED =
  "read, but not published yet: see rep.config.not_published";
const STORE_ONLY = "variables in the store only: see rep.config.rejected";
const NO_CHANGE = "no variable has changed";

/** This process's configuration. A reload replaces it as a whole, or not at all. */
export class Configuration {
  readonly #options: ConfigurationOptions;
  readonly #listeners = new Set<
    { readonly name: string; readonly listener: ValueListener }
  >();
  #snapshot = EMPTY_SNAPSHOT;
  #digests: SecretDigests = {};
  #changedAt = 0;
  #rejection: Rejection | undefined;
  #blocked = 0;
  /**
   * The last valid sources, without the variables in the store, and with the rank when they were read: they stay that
   * old.
   */
  #sources: SnapshotSources | undefined;
  #queuedReload: Promise<void> | undefined;
  /** Whether somebody asked for the queued reload (`ReloadOptions.isRequested`). */
  #isRequested = false;
  /** Whether the queued reload counts even if nothing has changed: not if it only publishes again. */
  #isCounted = false;
  /** Of two reloads at once, the one that read the older files could finish last, and publish them over the newer ones. */
  readonly #queue = new SerialQueue();
  #isClosed = false;
  #lastReloadAt = 0;

  constructor(options: ConfigurationOptions) {
    this.#options = options;
    options.metrics.observe(
      "rep.config.last_reload_success",
      () => Number(!this.isReloadRejected),
    );
    options.metrics.observe(
      "rep.config.last_reload_timestamp",
      () => this.#lastReloadAt / 1_000,
    );
    options.metrics.observe("rep.config.secrets", () => {
      const { sensitive_digest, server_digest } = this.#digests;
      if (sensitive_digest === undefined) return undefined;
      return new Map([[`${sensitive_digest} ${server_digest}`, 1]]);
    });
  }

  /**
   * Reads the configuration for the first time, and publishes nothing.
   *
   * @param published Values that replace those in the store, which are invalid; the reload that follows logs why.
   * @throws {ConfigurationError} If the configuration is invalid.
   */
  async load(published?: ReadonlyMap<string, string>): Promise<void> {
    await this.#readAndBuild(published);
    this.#lastReloadAt = this.#changedAt = this.#options.clock.now();
    if (published !== undefined) return;
    const { warnings } = this.#snapshot;
    this.#options.log.info("rep.config.loaded", {
      ...describe(this.#snapshot, this.#options.revision),
      warnings: warnings.length,
    });
    this.#logFindings(this.#snapshot, EMPTY_SNAPSHOT);
  }

  /** The last valid variables; none before {@linkcode load}. */
  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  /** The digests of SENSITIVE and SERVER values, as of the last {@linkcode updateDigests}. */
  get digests(): SecretDigests {
    return this.#digests;
  }

  /** Called once the master key has been loaded, and by each reload. */
  async updateDigests(): Promise<void> {
    this.#digests = await digestSecrets(this.#snapshot, this.#options.epochs);
  }

  /** When the variables last changed, in milliseconds since the Unix epoch. */
  get changedAt(): number {
    return this.#changedAt;
  }

  /** Why the last reload was rejected; `undefined` if it was not. */
  get rejection(): Rejection | undefined {
    return this.#rejection;
  }

  /** Whether the last reload was rejected. */
  get isReloadRejected(): boolean {
    return this.#rejection !== undefined;
  }

  /** The number of changes that strict mode rejected. The same change counts once, although every poll finds it again. */
  get blocked(): number {
    return this.#blocked;
  }

  /**
   * Adds a listener for a variable.
   *
   * @returns A function that removes it.
   */
  onChange(name: string, listener: ValueListener): () => void {
    const entry = { name, listener };
    this.#listeners.add(entry);
    return () => void this.#listeners.delete(entry);
  }

  /**
   * Reads the sources again and makes the result the current configuration. Calls that arrive while a reload is queued
   * share it. After {@linkcode close} it does nothing.
   *
   * @throws {ConfigurationError} If the configuration is invalid. The last valid sources then stay active, with the
   * newest variables in the store if these are valid.
   */
  async reload(
    { isRequested = false }: ReloadOptions = {},
  ): Promise<void> {
    this.#isRequested ||= isRequested;
    this.#isCounted = true;
    await this.#enqueue();
  }

  /** Publishes the first snapshot. It returns even if the store fails: the snapshot then waits. */
  async publish(): Promise<void> {
    const { publisher } = this.#options;
    await this.#queue.run(async () => {
      await publisher?.publish(this.#snapshot);
    });
  }

  /**
   * Reloads because the last snapshot waits, or because the store or this process's role has changed. It counts as a reload
   * only if variables have changed, and never rejects.
   */
  async readAgain(): Promise<void> {
    try {
      await this.#enqueue();
    } catch {
      // The issues have been logged. If the sources have them, their last valid version was published.
    }
  }

  #enqueue(): Promise<void> {
    return this.#queuedReload ??= this.#queue.run(() => this.#reload());
  }

  async #reload(): Promise<void> {
    this.#queuedReload = undefined;
    if (this.#isClosed) return;
    const before = this.#snapshot;
    const wasRejected = this.isReloadRejected;
    const request = {
      isRequested: this.#isRequested,
      isCounted: this.#isCounted,
    };
    this.#isRequested = this.#isCounted = false;
    if (request.isRequested) this.#options.storedVariables.acknowledgeLoss();
    const errors = await this.#rebuild();
    if (this.#isClosed) return; // the shutdown does not wait for the sources
    const isRebuilt = this.#snapshot !== before;
    if (errors.length > 0) this.#reject(errors, isRebuilt, request);
    else this.#rejection = undefined;
    const isRecovery = wasRejected && !this.isReloadRejected;
    if (isRebuilt) await this.#apply(before, isRecovery, request);
    if (errors.length > 0) throw errors[0];
  }

  /**
   * Publishes the new snapshot, calls the listeners, and logs the reload: at level debug if a poll found no change,
   * unless it is the first valid reload after rejected ones.
   */
  async #apply(
    before: Snapshot,
    isRecovery: boolean,
    { isRequested, isCounted }: ReloadRequest,
  ): Promise<void> {
    const { publisher, clock, log, revision } = this.#options;
    const snapshot = this.#snapshot;
    this.#logFindings(snapshot, before);
    const isWaiting = await publisher?.publish(snapshot) ?? false;
    const isUnchanged = hasSameVariables(snapshot, before);
    await this.updateDigests();
    if (!isUnchanged) this.#changedAt = clock.now();
    this.#notify(before, snapshot);
    const isRejected = this.isReloadRejected;
    if (isRejected && isUnchanged) return;
    const outcome = isUnchanged ? "unchanged" : "applied";
    if (!isRejected && (!isUnchanged || isCounted)) this.#count(outcome);
    const isNews = !isUnchanged || isRecovery || isRequested;
    let detail: string | undefined;
    if (isWaiting) detail = NOT_PUBLISHED;
    else if (isRejected) detail = STORE_ONLY;
    else if (isUnchanged && isRequested) detail = NO_CHANGE;
    log[isNews ? "info" : "debug"]("rep.config.reloaded", {
      ...describe(snapshot, revision),
      ...this.#digests,
      detail,
    });
  }

  /**
   * Reads everything and builds a snapshot of it. If the sources are invalid, it uses the last valid ones, so that a
   * broken file does not delay variables that are set in the store.
   *
   * @returns Why the sources were rejected, and then why the last valid ones were; nothing if the sources are valid.
   */
  async #rebuild(): Promise<readonly unknown[]> {
    try {
      await this.#readAndBuild();
      return [];
    } catch (error) {
      const sources = this.#sources;
      if (sources === undefined) return [error];
      const { rankAtRead = 0 } = sources; // if it was not known, they may be older than any rollout
      try {
        await this.#build({ ...sources, rankAtRead });
        return [error];
      } catch (second) {
        return [error, second];
      }
    }
  }

  /** The rank is read first: a rollout that begins from then on may have newer sources. */
  async #readAndBuild(published?: ReadonlyMap<string, string>): Promise<void> {
    const { rollout, readSources } = this.#options;
    const rankAtRead = await rollout?.readHighestRank();
    const sources = await readSources();
    await this.#build({ ...sources, rankAtRead }, published);
  }

  /** Precedence: the store, the environment, the env file, the manifest's defaults. */
  async #build(
    sources: SnapshotSources,
    published?: ReadonlyMap<string, string>,
  ): Promise<void> {
    const read = await this.#options.storedVariables.read();
    const stored = published ? asPublished(read, published) : read;
    const snapshot = await buildSnapshot({ ...sources, stored });
    // An env source has its own guard for each path; a module's `variables` has only this one. The store has none, since
    // its variables are removed one by one and on purpose.
    const before = this.#sources?.environment ?? {};
    if (isEmptied(before, sources.environment)) {
      throw new ConfigurationError([
        `Cannot use the variables: expected some, as before, ${EMPTIED}`,
      ]);
    }
    this.#sources = sources;
    this.#snapshot = snapshot;
  }

  #reject(
    errors: readonly unknown[],
    isRebuilt: boolean,
    { isRequested, isCounted }: ReloadRequest,
  ): void {
    const issues = [...new Set(errors.flatMap(issuesOf))]; // both attempts find an invalid variable in the store
    const isSame = issues.join("\n") === this.#rejection?.issues.join("\n"); // every poll finds the same change
    if (!isSame) this.#blocked += Math.max(...errors.map(blockedOf));
    this.#rejection = {
      issues,
      since: this.#rejection?.since ?? this.#options.clock.now(),
    };
    if (isCounted || !isSame) this.#count("rejected");
    if (isSame && !isRequested) return;
    const detail = isRebuilt
      ? "the previous sources stay active, with the variables in the store"
      : "the previous configuration stays active";
    this.#options.log.error("rep.config.rejected", { detail, issues });
  }

  #count(outcome: ReloadOutcome): void {
    this.#lastReloadAt = this.#options.clock.now();
    this.#options.metrics.count("rep.config.reloads", 1, outcome);
  }

  /** Logs the findings that the previous snapshot did not have. */
  #logFindings(snapshot: Snapshot, before: Snapshot): void {
    const known = new Set(allFindings(before).map((it) => JSON.stringify(it)));
    for (const finding of allFindings(snapshot)) {
      if (known.has(JSON.stringify(finding))) continue;
      const { event, name, detection, detail } = finding;
      const fields = { variable_name: name, detection_type: detection, detail };
      this.#options.log.warn(event, fields);
    }
  }

  /** Calls the listeners of the variables that changed. If one throws, the error is logged and the others are called. */
  #notify(before: Snapshot, after: Snapshot): void {
    for (const { name, listener } of [...this.#listeners]) {
      const newValue = valueOf(after, name);
      const oldValue = valueOf(before, name);
      if (newValue === oldValue) continue;
      try {
        listener(newValue, oldValue);
      } catch (error) {
        logTaskError(this.#options.log, "onChange")(error);
      }
    }
  }

  /** Waits for a reload that is running, and prevents any other. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#queue.settled();
  }
}

/** Returns the variables in the store with the values that were published, without those that never were. */
function asPublished(
  stored: StoredEnvironment | undefined,
  published: ReadonlyMap<string, string>,
): StoredEnvironment | undefined {
  if (stored === undefined) return undefined;
  const environment: Record<string, string> = {};
  for (const key of Object.keys(stored.environment)) {
    const value = published.get(key.replace("REP_PUBLIC_", ""));
    if (value !== undefined) environment[key] = value;
  }
  return { ...stored, environment };
}

/** Returns why a configuration was rejected. */
export function issuesOf(error: unknown): readonly string[] {
  return error instanceof ConfigurationError ? error.issues : [String(error)];
}

/** Returns how many changes strict mode rejected. */
function blockedOf(error: unknown): number {
  return error instanceof ConfigurationError ? error.blocked : 0;
}

function describe(snapshot: Snapshot, revision: string | undefined) {
  return {
    configuration: shortHash(snapshot.configurationHash),
    revision,
    ...countVariables(snapshot),
  };
}

/** Looks in all tiers, since a name is in one tier only. */
function valueOf(snapshot: Snapshot, name: string): string | undefined {
  return snapshot.public.get(name) ?? snapshot.sensitive.get(name) ??
    snapshot.serverValue(name);
}
