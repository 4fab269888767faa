import { isEqualMap, type Snapshot } from "../config/variables/snapshot.ts";
import type { EpochKeys, Epochs } from "../keys/epochs.ts";
import { type Log, messageOf } from "../observe/log.ts";
import type { Clock } from "../values/clock.ts";
import { type ConfigScript, renderConfigScript } from "./config_script.ts";
import { makePayload } from "./payload.ts";

/** What pages receive. */
export interface PageValues {
  readonly values: Pick<Snapshot, "public" | "sensitive">;
  /** The id of the newest event that the values contain, from which a page subscribes to changes. */
  readonly cursor: number;
}

/** Options of {@linkcode ConfigScriptCache}. */
interface ConfigScriptCacheOptions {
  /** Returns what a page that is sent now receives. */
  current: () => PageValues;
  hotReload: boolean;
  /** The path under which the endpoints are served: empty, or such as `/app`. */
  basePath: string;
  epochs: Epochs;
  clock: Clock;
  log: Log;
}

/** What a config script depends on. */
interface CacheKey extends PageValues {
  readonly epoch: string;
}

/**
 * Renders the config script once for the values of a snapshot, a cursor and an epoch. A reload that finds no change, as
 * most polls do, thus leaves the finished pages and their compressed variants as they are.
 */
export class ConfigScriptCache {
  readonly #options: ConfigScriptCacheOptions;
  #cached: { key: CacheKey; script: Promise<ConfigScript> } | undefined;

  constructor(options: ConfigScriptCacheOptions) {
    this.#options = options;
  }

  /** Returns the config script for a page that is sent now. */
  async get(): Promise<ConfigScript> {
    const { values, cursor } = this.#options.current();
    const key = { values, cursor, epoch: this.#options.epochs.current() };
    const isCurrent = this.#cached !== undefined &&
      isSame(this.#cached.key, key);
    const script = isCurrent ? this.#cached!.script : this.#render(key);
    this.#cached = { key, script }; // the next comparison is with the same values
    return await script;
  }

  async #render({ values, cursor, epoch }: CacheKey): Promise<ConfigScript> {
    const { hotReload, clock, basePath } = this.#options;
    const keys = await this.#keysOf(epoch);
    const sensitive = keys === undefined ? NO_VALUES : values.sensitive;
    const input = {
      public: values.public,
      sensitive,
      keys: keys ?? temporaryKeys(epoch),
      now: clock.now(),
      basePath,
    };
    return renderConfigScript(
      await makePayload({ ...input, cursor: hotReload ? cursor : undefined }),
    );
  }

  /** Returns `undefined` if the store, which has the master key, is unavailable: pages then have PUBLIC values only. */
  async #keysOf(epoch: string): Promise<EpochKeys | undefined> {
    const { epochs, log } = this.#options;
    try {
      return await epochs.keys(epoch);
    } catch (error) {
      this.#cached = undefined; // so that the next page tries again
      log.error("rep.page.without_sensitive", {
        detail: `the master key is unavailable: ${messageOf(error)}`,
      });
      return undefined;
    }
  }
}

const NO_VALUES: ReadonlyMap<string, string> = new Map();

function isSame(a: CacheKey, b: CacheKey): boolean {
  return hasSameValues(a.values, b.values) && a.cursor === b.cursor &&
    a.epoch === b.epoch;
}

function hasSameValues(
  a: CacheKey["values"],
  b: CacheKey["values"],
): boolean {
  return a === b ||
    (isEqualMap(a.public, b.public) && isEqualMap(a.sensitive, b.sensitive));
}

/** Returns random keys for a single payload: its integrity token is required, but nothing verifies it. */
function temporaryKeys(kid: string): EpochKeys {
  const key = () => crypto.getRandomValues(new Uint8Array(32));
  return { kid, sessionKey: key(), integrityKey: key() };
}
