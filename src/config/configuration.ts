import { type Log, type LogFields, logTaskError } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Clock } from "../values/clock.ts";
import { shortHash } from "../values/hash.ts";
import {
  buildSnapshot,
  ConfigurationError,
  countVariables,
  emptiedTierIssues,
  EMPTY_SNAPSHOT,
  EMPTY_VALUE,
  hasSameVariables,
  type Snapshot,
  type SnapshotInput,
} from "./variables/snapshot.ts";
import type { StoredVariablesSource } from "./stored/stored_variables.ts";

/** Options of {@linkcode Configuration}. */
interface ConfigurationOptions {
  /** Reads all sources but the store. */
  read: () => Promise<SnapshotInput>;
  storedVariables: StoredVariablesSource;
  /** Publishes the snapshot of each reload; `undefined` without hot reload. */
  publisher: SnapshotPublisher | undefined;
  /** What the process was built from, for the log. */
  revision: string | undefined;
  log: Log;
  metrics: Metrics;
  clock: Pick<Clock, "now">;
}

/** Where snapshots go. */
interface SnapshotPublisher {
  /**
   * Returns whether nothing of the snapshot waits to be published: it is, or another configuration is active. It neither
   * rejects nor waits for a store that is unavailable.
   */
  publish(snapshot: Snapshot): Promise<boolean>;
}

/** What becomes of a reload. */
export const RELOAD_OUTCOMES = ["applied", "unchanged", "rejected"] as const;

type ReloadOutcome = (typeof RELOAD_OUTCOMES)[number];

/** Options of a reload. */
export interface ReloadOptions {
  /**
   * Whether a reload without any change is logged at level info and not debug, and one that is rejected for the same
   * issues as before is logged at all, since somebody has asked for it.
   *
   * @default {false}
   */
  logsUnchanged?: boolean;
}

/** Hears of a variable's new value, `undefined` if it was deleted, and of the old one, `undefined` if it is new. */
export type ValueListener = (
  newValue: string | undefined,
  oldValue: string | undefined,
) => void;

/** This process's configuration, and how it is replaced: as a whole, or not at all. */
export class Configuration {
  readonly #options: ConfigurationOptions;
  /** Those who hear of reloads. */
  readonly listeners: ValueListeners;
  #snapshot = EMPTY_SNAPSHOT;
  /** When the snapshot was read, in milliseconds since the Unix epoch. */
  #loadedAt = 0;
  #rejection:
    | { readonly issues: readonly string[]; readonly since: number }
    | undefined;
  #blocked = 0;
  /** What the sources had when they were last valid, without the variables in the store. */
  #sources: SnapshotInput | undefined;
  #queuedReload: Promise<void> | undefined;
  /** Whether a caller of the queued reload wants to know that nothing has changed. */
  #logsUnchanged = false;
  /** It never rejects. */
  #runningReload: Promise<void> = Promise.resolve();
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
    this.listeners = new ValueListeners(options.log);
  }

  /**
   * Reads the configuration for the first time. Nothing outside the process changes: the caller publishes it.
   *
   * @throws {ConfigurationError} If the configuration is invalid.
   */
  async load(): Promise<void> {
    await this.#build(await this.#options.read());
    this.#lastReloadAt = this.#loadedAt = this.#options.clock.now();
    const { warnings } = this.#snapshot;
    this.#options.log.info("rep.config.loaded", {
      ...describe(this.#snapshot, this.#options.revision),
      warnings: warnings.length,
    });
    this.#logFindings(this.#snapshot, EMPTY_SNAPSHOT);
  }

  /** The variables as they were last read and found valid; none before {@linkcode load}. */
  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  /** When the variables last changed, in milliseconds since the Unix epoch. */
  get loadedAt(): number {
    return this.#loadedAt;
  }

  /**
   * The issues for which the last reload was rejected, which are in the log, too, and since when reloads are rejected,
   * in milliseconds since the Unix epoch.
   */
  get rejection(): {
    readonly issues: readonly string[];
    readonly since: number;
  } | undefined {
    return this.#rejection;
  }

  /** Whether the last reload was rejected. */
  get isReloadRejected(): boolean {
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
   * @throws {ConfigurationError} If the configuration is invalid. Then the sources stay as they were, with the newest
   * variables in the store; if those are invalid, everything stays as it was.
   */
  async reload({ logsUnchanged = false }: ReloadOptions = {}): Promise<void> {
    this.#logsUnchanged ||= logsUnchanged;
    this.#queuedReload ??= this.#reloadNext();
    await this.#queuedReload;
  }

  /** Reloads as soon as the reload under way has ended: of two at once, the one that has read the older files could come last. */
  async #reloadNext(): Promise<void> {
    await this.#runningReload;
    this.#queuedReload = undefined;
    if (this.#isClosed) return;
    const reload = this.#reload();
    this.#runningReload = reload.catch(() => {}); // the callers handle the rejection
    await reload;
  }

  async #reload(): Promise<void> {
    const before = this.#snapshot;
    const logsUnchanged = this.#logsUnchanged;
    this.#logsUnchanged = false;
    const errors = await this.#rebuild();
    if (this.#isClosed) return; // the shutdown has not waited for the sources
    const isRejected = errors.length > 0;
    const isRecovery = this.isReloadRejected && !isRejected;
    if (isRejected) this.#reject(errors, logsUnchanged);
    else this.#rejection = undefined;
    if (this.#snapshot !== before) {
      this.#logFindings(this.#snapshot, before);
      const { publisher } = this.#options;
      const isSettled = await publisher?.publish(this.#snapshot) ?? true;
      const isUnchanged = hasSameVariables(this.#snapshot, before);
      if (!isUnchanged) this.#loadedAt = this.#options.clock.now();
      this.listeners.notify(before, this.#snapshot);
      if (!isRejected) this.#count(isUnchanged ? "unchanged" : "applied");
      this.#logReload({ isUnchanged, isSettled, isRecovery, logsUnchanged });
    }
    if (isRejected) throw errors[0];
  }

  /** A poll that finds no change is not worth a line, but the end of what `rep.config.rejected` has announced is. */
  #logReload(outcome: {
    readonly isUnchanged: boolean;
    readonly isSettled: boolean;
    readonly isRecovery: boolean;
    readonly logsUnchanged: boolean;
  }): void {
    const { isUnchanged, isSettled, isRecovery, logsUnchanged } = outcome;
    if (isUnchanged && this.isReloadRejected) return;
    const isNews = !isUnchanged || isRecovery || logsUnchanged;
    let detail: string | undefined;
    if (isUnchanged && logsUnchanged) detail = "no variable has changed";
    if (this.isReloadRejected) {
      detail = "variables in the store only: see rep.config.rejected";
    }
    if (!isSettled) {
      detail = "read, but not published yet: see rep.config.not_published";
    }
    const { log, revision } = this.#options;
    log[isNews ? "info" : "debug"]("rep.config.reloaded", {
      ...describe(this.#snapshot, revision),
      detail,
    });
  }

  /**
   * Reads everything and builds a snapshot of it. If the sources cannot be read or are invalid, it is one of those that
   * were last valid, so that a broken file does not hold up what is `set` in the store.
   *
   * @returns Why the sources are rejected, and why the variables in the store are; nothing of what is valid.
   */
  async #rebuild(): Promise<readonly unknown[]> {
    const errors: unknown[] = [];
    try {
      await this.#build(await this.#options.read());
      return errors;
    } catch (error) {
      errors.push(error);
    }
    try {
      if (this.#sources !== undefined) await this.#build(this.#sources);
    } catch (error) {
      errors.push(error);
    }
    return errors;
  }

  /** Precedence: the store, the environment, the env file, the manifest's defaults. */
  async #build(sources: SnapshotInput): Promise<void> {
    const stored = await this.#options.storedVariables.read();
    const snapshot = await buildSnapshot({ ...sources, stored });
    this.#rejectIfEmptied(sources);
    this.#sources = sources;
    this.#snapshot = snapshot;
  }

  /** Variables in the store are removed one by one, and on purpose. */
  #rejectIfEmptied({ environment }: SnapshotInput): void {
    const before = this.#sources?.environment ?? {};
    const issues = emptiedTierIssues(before, environment);
    if (issues.length > 0) throw new ConfigurationError(issues);
  }

  /** @param errors Those of the sources, and of the variables in the store if these do not apply either. */
  #reject(errors: readonly unknown[], logsUnchanged: boolean): void {
    const issues = [...new Set(errors.flatMap(issuesOf))]; // an invalid variable in the store is found twice
    const isSame = issues.join("\n") === this.#rejection?.issues.join("\n"); // every poll finds the same change
    if (!isSame) this.#blocked += Math.max(...errors.map(blockedOf));
    this.#rejection = {
      issues,
      since: this.#rejection?.since ?? this.#options.clock.now(),
    };
    this.#count("rejected");
    if (isSame && !logsUnchanged) return;
    const detail = errors.length === 1
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
    const known = findingsOf(before);
    for (const [key, { event, fields }] of findingsOf(snapshot)) {
      if (!known.has(key)) this.#options.log.warn(event, fields);
    }
  }

  /** Waits for a reload that is running. No other begins. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#runningReload;
  }
}

function issuesOf(error: unknown): readonly string[] {
  return error instanceof ConfigurationError ? error.issues : [String(error)];
}

/** Returns how many changes strict mode has rejected. */
function blockedOf(error: unknown): number {
  return error instanceof ConfigurationError ? error.blocked : 0;
}

function describe(snapshot: Snapshot, revision: string | undefined) {
  return {
    configuration: shortHash(snapshot.deployment),
    revision,
    ...countVariables(snapshot),
  };
}

/** A line of the log about a variable. */
interface Finding {
  readonly event: string;
  readonly fields: LogFields;
}

/** Returns the guardrail warnings, deprecations, empty values and suspicious names, each by a key that identifies it. */
function findingsOf(snapshot: Snapshot): Map<string, Finding> {
  const findings = new Map<string, Finding>();
  for (const { name, detection, detail } of snapshot.warnings) {
    findings.set(`warning ${name} ${detail}`, {
      event: "rep.guardrail.warning",
      fields: { variable_name: name, detection_type: detection, detail },
    });
  }
  for (const { name, message } of snapshot.deprecated) {
    findings.set(`deprecated ${name}`, {
      event: "rep.config.deprecated",
      fields: { variable_name: name, detail: message },
    });
  }
  for (const name of snapshot.empty) {
    findings.set(`empty ${name}`, {
      event: "rep.config.empty",
      fields: { variable_name: name, detail: EMPTY_VALUE },
    });
  }
  for (const { name, detail } of snapshot.suspicious) {
    findings.set(`suspicious ${name}`, {
      event: "rep.config.suspicious_name",
      fields: { variable_name: name, detail },
    });
  }
  return findings;
}

/** Those who hear of reloads that change a variable. */
class ValueListeners {
  readonly #log: Log;
  readonly #listeners = new Set<
    { readonly name: string; readonly listener: ValueListener }
  >();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Adds a listener. Returns a function that removes it. */
  add(name: string, listener: ValueListener): () => void {
    const entry = { name, listener };
    this.#listeners.add(entry);
    return () => void this.#listeners.delete(entry);
  }

  /** Calls the listeners of the variables that differ. An error of one is logged, and does not affect the others. */
  notify(before: Snapshot, after: Snapshot): void {
    for (const { name, listener } of [...this.#listeners]) {
      const newValue = valueOf(after, name);
      const oldValue = valueOf(before, name);
      if (newValue === oldValue) continue;
      try {
        listener(newValue, oldValue);
      } catch (error) {
        logTaskError(this.#log, "onChange")(error);
      }
    }
  }
}

/** A name is in one tier only. */
function valueOf(snapshot: Snapshot, name: string): string | undefined {
  return snapshot.public.get(name) ?? snapshot.sensitive.get(name) ??
    snapshot.serverValue(name);
}
