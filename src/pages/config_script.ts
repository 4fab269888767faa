import { isEqualMap, type Snapshot } from "../config/variables/snapshot.ts";
import type { EpochKeys, Epochs } from "../keys/epochs.ts";
import { encryptSensitive, integrityToken } from "../keys/page_crypto.ts";
import { type Log, messageOf } from "../observe/log.ts";
import type { Clock } from "../values/clock.ts";
import {
  canonicalJson,
  publicHash,
  shortHash,
  sriHash,
} from "../values/hash.ts";

/** The version of REP that the payload conforms to. */
export const PROTOCOL_VERSION = "0.1.0";

/** The configuration of a page (REP-RFC-0001 §8.1). */
export interface Payload {
  /** PUBLIC values by name. */
  readonly public: Readonly<Record<string, string>>;
  /** SENSITIVE values, encrypted; absent if there are none. */
  readonly sensitive?: string;
  readonly _meta: PayloadMeta;
}

interface PayloadMeta {
  readonly version: string;
  /** RFC 3339. */
  readonly injected_at: string;
  readonly integrity: string;
  /** The path that returns the session key; absent without SENSITIVE values. */
  readonly key_endpoint?: string;
  /** The path of the stream of changes since this payload; absent without hot reload. */
  readonly hot_reload?: string;
  /** Seconds until the payload expires; 0 means never. */
  readonly ttl: 0;
}

/** The input of {@linkcode makePayload}. */
export interface PayloadInput {
  public: ReadonlyMap<string, string>;
  sensitive: ReadonlyMap<string, string>;
  keys: EpochKeys;
  /** The id of the newest event that the values contain; `undefined` without hot reload. */
  cursor: number | undefined;
  /** The path under which the endpoints are served: empty, or such as `/app`. */
  basePath: string;
  /** Milliseconds since the Unix epoch. */
  now: number;
}

/** Creates the payload for a snapshot and an epoch. */
export async function makePayload(input: PayloadInput): Promise<Payload> {
  const { keys, cursor, sensitive, basePath } = input;
  const integrity = await integrityToken(input.public, keys.integrityKey);
  const isSecret = sensitive.size > 0;
  const meta: PayloadMeta = {
    version: PROTOCOL_VERSION,
    injected_at: new Date(input.now).toISOString(),
    integrity,
    ...(isSecret && {
      key_endpoint: `${basePath}/rep/session-key?kid=${keys.kid}`,
    }),
    ...(cursor !== undefined && {
      hot_reload: await streamPath(cursor, input),
    }),
    ttl: 0,
  };
  const values = Object.fromEntries(input.public);
  if (!isSecret) return { public: values, _meta: meta };
  const encrypted = await encryptSensitive(
    sensitive,
    keys.sessionKey,
    integrity,
  );
  return { public: values, sensitive: encrypted, _meta: meta };
}

/** Returns the path of a stream that begins after a cursor. The hash says which values the page has. */
export async function streamPath(
  cursor: number,
  { basePath, public: values }: Pick<PayloadInput, "basePath" | "public">,
): Promise<string> {
  const state = shortHash(await publicHash(values));
  return `${basePath}/rep/changes?last_event_id=${cursor}&state=${state}`;
}

/** The `<script>` element that is inserted into a page. */
export interface ConfigScript {
  /** The whole element. */
  readonly bytes: Uint8Array;
  /** Changes with the PUBLIC values. It is part of a page's `ETag`. */
  readonly revision: string;
  /** Whether it contains SENSITIVE values, so that a page with it must not be stored. */
  readonly isSecret: boolean;
}

/** What a config script says of its page. */
interface ScriptOptions {
  /** Whether the HTML of the page was rendered with the PUBLIC values, with which the client then hydrates it. */
  readonly isRendered?: boolean;
}

/**
 * Renders the element for a payload (REP-RFC-0001 §4.3). The hash covers the text of the element as it is in the
 * document, which is what the client reads, so `<` is escaped first.
 */
export async function renderConfigScript(
  payload: Payload,
  { isRendered = false }: ScriptOptions = {},
): Promise<ConfigScript> {
  const text = escapeForScript(JSON.stringify(payload));
  const integrity = await sriHash(text);
  const attributes =
    `type="application/json" data-rep-version="${PROTOCOL_VERSION}" data-rep-integrity="${integrity}"`;
  const mark = isRendered ? " data-rep-rendered" : "";
  const html = `<script id="__rep__" ${attributes}${mark}>${text}</script>`;
  const publicValues = canonicalJson(new Map(Object.entries(payload.public)));
  const hasNoStream = payload._meta.hot_reload === undefined;
  const revision = await sriHash(`${publicValues}|${hasNoStream}`);
  return {
    bytes: new TextEncoder().encode(html),
    revision: revision.replace(/^sha256-/, "").slice(0, 16),
    isSecret: payload.sensitive !== undefined,
  };
}

/**
 * Escapes JSON so that it cannot end the element or begin a comment (HTML standard §4.12.1.3). The result is ASCII, and
 * so the same in a page of any encoding.
 */
export function escapeForScript(json: string): string {
  return json.replace(
    /[<\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Returns the config script for a page that is sent now. */
export type GetConfigScript = () => Promise<ConfigScript>;

/** What pages receive. */
export interface PageValues {
  readonly values: Pick<Snapshot, "public" | "sensitive">;
  /** The id of the newest event that the values contain, from which a page subscribes to changes. */
  readonly cursor: number;
}

/** Options of {@linkcode ConfigScriptCache}. */
interface ConfigScriptCacheOptions extends ScriptOptions {
  /** Returns what a page that is sent now receives. */
  current: () => PageValues;
  hotReload: boolean;
  /** The path under which the endpoints are served: empty, or such as `/app`. */
  basePath: string;
  epochs: Pick<Epochs, "current" | "keys" | "hasMasterKey">;
  clock: Clock;
  log: Log;
}

/** How long pages without SENSITIVE values are kept before the master key is asked for again. */
const RETRY_MS = 1_000;

/** What a config script depends on. */
interface CacheKey extends PageValues {
  readonly epoch: string;
}

/**
 * Renders the config script once for the values of a snapshot, a cursor and an epoch. A reload that finds no change, as
 * most polls do, thus leaves the pages in memory and their compressed variants as they are.
 */
export class ConfigScriptCache {
  readonly #options: ConfigScriptCacheOptions;
  #cached: { key: CacheKey; script: Promise<ConfigScript> } | undefined;
  /** Until when the cached script is used, by the monotonic clock. */
  #validUntil = Infinity;
  /** Whether the last script lacks SENSITIVE values. */
  #lacksKey = false;

  constructor(options: ConfigScriptCacheOptions) {
    this.#options = options;
  }

  /** Returns the config script for a page that is sent now. */
  async get(): Promise<ConfigScript> {
    const { current, epochs, clock } = this.#options;
    const { values, cursor } = current();
    const key = { values, cursor, epoch: epochs.current() };
    const isCurrent = this.#cached !== undefined &&
      clock.monotonic() < this.#validUntil && isSame(this.#cached.key, key);
    const script = isCurrent ? this.#cached!.script : this.#render(key);
    this.#cached = { key, script }; // the next comparison is with the same values
    return await script;
  }

  async #render({ values, cursor, epoch }: CacheKey): Promise<ConfigScript> {
    const { hotReload, clock, basePath, isRendered = false } = this.#options;
    this.#validUntil = Infinity;
    const keys = await this.#keysFor(values, epoch);
    const payload = await makePayload({
      public: values.public,
      sensitive: keys === undefined ? new Map() : values.sensitive,
      keys: keys ?? temporaryKeys(epoch),
      cursor: hotReload ? cursor : undefined,
      basePath,
      now: clock.now(),
    });
    return await renderConfigScript(payload, { isRendered });
  }

  /**
   * Returns `undefined` if the store, which has the master key, is unavailable: pages then have PUBLIC values only. No
   * key is asked for where there are no others.
   */
  async #keysFor(
    { sensitive }: PageValues["values"],
    epoch: string,
  ): Promise<EpochKeys | undefined> {
    const { epochs, clock } = this.#options;
    if (sensitive.size === 0 && !epochs.hasMasterKey) return undefined;
    try {
      const keys = await epochs.keys(epoch);
      this.#lacksKey = false;
      return keys;
    } catch (error) {
      this.#validUntil = clock.monotonic() + RETRY_MS;
      this.#reportMissingKey(error);
      return undefined;
    }
  }

  /** Logs it once an outage. */
  #reportMissingKey(error: unknown): void {
    if (this.#lacksKey) return;
    this.#lacksKey = true;
    this.#options.log.error("rep.page.without_sensitive", {
      detail: `the master key is unavailable: ${messageOf(error)}`,
    });
  }
}

function isSame(a: CacheKey, b: CacheKey): boolean {
  return a.cursor === b.cursor && a.epoch === b.epoch &&
    hasSameValues(a.values, b.values);
}

function hasSameValues(
  a: PageValues["values"],
  b: PageValues["values"],
): boolean {
  if (a === b) return true;
  return isEqualMap(a.public, b.public) &&
    isEqualMap(a.sensitive, b.sensitive);
}

/** Returns random keys for a single payload: its integrity token is required, but nothing verifies it. */
function temporaryKeys(kid: string): EpochKeys {
  const key = () => crypto.getRandomValues(new Uint8Array(32));
  return { kid, sessionKey: key(), integrityKey: key() };
}
