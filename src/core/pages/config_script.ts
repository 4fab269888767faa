import { isEqualMap, type Snapshot } from "../config/variables/snapshot.ts";
import type { EpochKeys, Epochs } from "../keys/epochs.ts";
import { encryptSensitive, integrityToken } from "../keys/page_crypto.ts";
import { type Log, messageOf } from "../observe/log.ts";
import { escapeCodeUnit } from "../values/visible_text.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Clock } from "../values/clock.ts";
import {
  canonicalJson,
  publicHash,
  shortHash,
  sriHash,
} from "../values/hash.ts";
import type { Payload } from "./payload.ts";
import { toUtf8 } from "../values/utf8.ts";

/** The version of REP that the payload conforms to. */
export const PROTOCOL_VERSION = "0.1.0";

/** The input of {@linkcode makePayload}. */
export interface PayloadInput extends Pick<Snapshot, "public" | "sensitive"> {
  keys: EpochKeys;
  /** The ID of the newest event that the values contain; `undefined` without hot reload. */
  cursor: number | undefined;
  /** How often the page polls; `undefined` if it opens a stream. */
  pollMs: number | undefined;
  /** The path under which the endpoints are served, such as `/app`, or empty. */
  basePath: string;
  /** Milliseconds since the Unix epoch. */
  now: number;
}

/**
 * The keys of a payload without SENSITIVE values, if there is no master key. REP requires an integrity token, but only a
 * gateway could verify it.
 */
export const NO_KEYS: EpochKeys = {
  kid: "",
  sessionKey: new Uint8Array(32),
  integrityKey: new Uint8Array(32),
};

/** Creates the payload for a snapshot and an epoch. */
export async function makePayload(input: PayloadInput): Promise<Payload> {
  const { keys, cursor, pollMs, sensitive, basePath } = input;
  const integrity = await integrityToken(input.public, keys.integrityKey);
  const isSecret = sensitive.size > 0;
  const meta: Payload["_meta"] = {
    version: PROTOCOL_VERSION,
    injected_at: new Date(input.now).toISOString(),
    integrity,
    ...(isSecret && {
      key_endpoint: `${basePath}/rep/session-key?kid=${keys.kid}`,
    }),
    ...(cursor !== undefined && {
      hot_reload: await streamPath(cursor, input),
      ...(pollMs !== undefined && { poll: pollMs / 1_000 }),
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

/** Returns the path of a stream that begins after a cursor. It contains the hash of the values that the page has. */
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
  /** A part of the page's `ETag`. It changes with the PUBLIC values and the build. */
  readonly etagPart: string;
  /** Whether it contains SENSITIVE values. A page with it must not be stored. */
  readonly isSecret: boolean;
}

/** Options of {@linkcode renderConfigScript}. */
interface ScriptOptions {
  /** The ID of the app's build. @default {it is unknown} */
  readonly build?: string | undefined;
  /** Whether the HTML of the page was rendered with the PUBLIC values. The client then hydrates it with the same. */
  readonly isRendered?: boolean;
}

/**
 * Renders the element for a payload (REP-RFC-0001 §4.3). The client hashes the text of the element as it stands in the
 * document, so `<` is escaped before the hash is computed.
 */
export async function renderConfigScript(
  payload: Payload,
  { build, isRendered = false }: ScriptOptions = {},
): Promise<ConfigScript> {
  const text = escapeForScript(JSON.stringify(payload));
  const integrity = await sriHash(text);
  const attributes =
    `type="application/json" data-rep-version="${PROTOCOL_VERSION}" data-rep-integrity="${integrity}"`;
  const mark = isRendered ? " data-rep-rendered" : "";
  const named = build === undefined
    ? ""
    : ` data-rep-build="${escapeAttribute(build)}"`;
  const html =
    `<script id="__rep__" ${attributes}${named}${mark}>${text}</script>`;
  const publicValues = canonicalJson(new Map(Object.entries(payload.public)));
  const { hot_reload, poll } = payload._meta;
  const changes = poll ?? hot_reload === undefined;
  const hash = await sriHash(`${publicValues}|${changes}|${build ?? ""}`);
  return {
    bytes: toUtf8(html),
    etagPart: hash.replace(/^sha256-/, "").slice(0, 16),
    isSecret: payload.sensitive !== undefined,
  };
}

/**
 * Escapes JSON so that it cannot end the element or begin a comment (HTML standard §4.12.1.3). The result is ASCII, so it
 * is valid in a page of any encoding.
 */
export function escapeForScript(json: string): string {
  return json.replace(/[<\u007f-\uffff]/g, escapeCodeUnit);
}

/** Escapes a text for an attribute in double quotes. The result is ASCII, like that of {@linkcode escapeForScript}. */
function escapeAttribute(text: string): string {
  return text.replace(
    /["&<>\u007f-\u{10ffff}]/gu,
    (character) => `&#${character.codePointAt(0)};`,
  );
}

/** Returns the config script for a page that is sent now. */
export type GetConfigScript = () => Promise<ConfigScript>;

/** The values that pages receive. */
export interface PageValues {
  readonly values: Pick<Snapshot, "public" | "sensitive">;
  /** The ID of the newest event that the values contain. The page requests the changes after it. */
  readonly cursor: number;
}

/** Options of {@linkcode ConfigScriptCache}. */
interface ConfigScriptCacheOptions extends Pick<ScriptOptions, "isRendered"> {
  /** Returns the ID of the app's build that is delivered now; `undefined` if it is unknown. */
  build: () => Promise<string | undefined>;
  /** Returns the values for a page that is sent now. */
  current: () => PageValues;
  hotReload: boolean;
  /** How often pages poll; `undefined` if they open streams. */
  pollMs: number | undefined;
  /** The path under which the endpoints are served, such as `/app`, or empty. */
  basePath: string;
  epochs: Pick<Epochs, "current" | "keys" | "hasMasterKey">;
  clock: Clock;
  log: Log;
}

/** How long a script without SENSITIVE values is used before the next attempt to get the master key. */
const RETRY_MS = 1_000;

/** Everything that a config script depends on. */
interface CacheKey extends PageValues {
  readonly build: string | undefined;
  readonly epoch: string;
}

/**
 * Renders the config script once for each combination of build, values, cursor and epoch. So a reload without a change,
 * such as most polls, does not invalidate the pages in memory and their compressed variants.
 */
export class ConfigScriptCache {
  readonly #options: ConfigScriptCacheOptions;
  #cached: { key: CacheKey; script: Promise<ConfigScript> } | undefined;
  /** When the cached script has to be rendered again, on the monotonic clock; `undefined` if it need not be. */
  #retryAt: number | undefined;
  /** Whether the last script lacks SENSITIVE values, because the master key was unavailable. */
  #lacksKey = false;

  constructor(options: ConfigScriptCacheOptions) {
    this.#options = options;
  }

  /** Returns the config script for a page that is sent now. */
  async get(): Promise<ConfigScript> {
    const { current, epochs, clock } = this.#options;
    const build = await this.#options.build();
    const { values, cursor } = current();
    const key = { build, values, cursor, epoch: epochs.current() };
    const isExpired = this.#retryAt !== undefined &&
      clock.monotonic() >= this.#retryAt;
    const isCurrent = this.#cached !== undefined && !isExpired &&
      isSame(this.#cached.key, key);
    const script = isCurrent ? this.#cached!.script : this.#render(key);
    this.#cached = { key, script }; // the new key, so that the next comparison finds the same object
    return await script;
  }

  async #render(
    { build, values, cursor, epoch }: CacheKey,
  ): Promise<ConfigScript> {
    const { hotReload, pollMs, clock, basePath, isRendered = false } =
      this.#options;
    this.#retryAt = undefined;
    const keys = await this.#keysFor(values, epoch);
    const payload = await makePayload({
      public: values.public,
      sensitive: keys === undefined ? new Map() : values.sensitive,
      keys: keys ?? NO_KEYS,
      cursor: hotReload ? cursor : undefined,
      pollMs,
      basePath,
      now: clock.now(),
    });
    return await renderConfigScript(payload, { build, isRendered });
  }

  /**
   * Returns `undefined` if the store is unavailable and so the master key is unknown. Pages then have only PUBLIC values.
   * Without SENSITIVE values, it does not ask the store for the key.
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
      this.#retryAt = clock.monotonic() + RETRY_MS;
      this.#reportMissingKey(error);
      return undefined;
    }
  }

  /** Logs it once for each outage. */
  #reportMissingKey(error: unknown): void {
    if (this.#lacksKey) return;
    this.#lacksKey = true;
    this.#options.log.error("rep.page.without_sensitive", {
      detail: `the master key is unavailable: ${messageOf(error)}`,
    });
  }
}

/** Returns the function that gets the script of a page, and counts the pages. */
export function configScripts(
  options: ConfigScriptCacheOptions,
  metrics: Metrics,
): GetConfigScript {
  const cache = new ConfigScriptCache(options);
  return async () => {
    metrics.count("rep.pages.served", 1);
    return await cache.get();
  };
}

function isSame(a: CacheKey, b: CacheKey): boolean {
  if (a.cursor !== b.cursor || a.epoch !== b.epoch) return false;
  if (a.build !== b.build) return false;
  if (a.values === b.values) return true;
  return isEqualMap(a.values.public, b.values.public) &&
    isEqualMap(a.values.sensitive, b.values.sensitive);
}
