import type { StreamStatus } from "./change_stream.ts";
import type { ClientEnvironment } from "./environment.ts";
import { type AnyChangeCallback, type ChangeCallback, createLiveValues } from "./live_values.ts";
import { isIntact, readPage, type Values } from "./payload.ts";
import { REPError } from "./rep_error.ts";
import { createSensitiveReader } from "./sensitive.ts";

/** What is known of the page's configuration beside its values. */
export interface REPMeta {
  /** The protocol's version. */
  version: string;
  /** When the gateway made the configuration. */
  injectedAt: Date;
  /** As {@linkcode Client.verify}. */
  integrityValid: boolean;
  /** How many PUBLIC variables there are now. */
  publicCount: number;
  /** Whether there are SENSITIVE variables. */
  sensitiveAvailable: boolean;
  /** Whether changes can be followed. */
  hotReloadAvailable: boolean;
}

/** The configuration of a page (REP-RFC-0001 §5.2). */
export interface Client {
  /** The value of a PUBLIC variable, or else the default. */
  get(key: string, defaultValue: string): string;
  /** The value of a PUBLIC variable, `undefined` if there is no such variable. */
  get(key: string, defaultValue?: undefined): string | undefined;
  /** All PUBLIC variables, frozen: a change makes a new object, which tells it from the old one by `===`. */
  getAll(): Values;
  /**
   * The value of a SENSITIVE variable. The first call asks the gateway for a key, which is limited to 10 a minute;
   * after it all of them are at hand for as long as the page lives.
   *
   * @throws {REPError} If there is no such variable, the gateway gives no key, or the page is not a secure context.
   */
  getSecure(key: string): Promise<string>;
  /**
   * Whether the page has a configuration and it was not seen to be tampered with. Hashing takes a moment: until then,
   * and where there is no `crypto.subtle`, a readable configuration counts as untouched.
   */
  verify(): boolean;
  /** What is known of the configuration; `null` if the page has none. */
  meta(): REPMeta | null;
  /**
   * Calls back when a PUBLIC variable changes or is deleted. The first subscription opens the stream of changes, and
   * catches up with what has changed since the page was made; the last one to leave closes it.
   *
   * @returns A function that ends the subscription.
   */
  onChange(key: string, callback: ChangeCallback): () => void;
  /** As {@linkcode Client.onChange}, for every PUBLIC variable. */
  onAnyChange(callback: AnyChangeCallback): () => void;
  /** How the stream of changes is doing. @experimental */
  status(): StreamStatus;
  /**
   * Calls back when {@linkcode Client.status} may be another. Opens no stream.
   *
   * @returns A function that ends the subscription.
   * @experimental
   */
  onStatus(callback: (status: StreamStatus) => void): () => void;
}

/** Reads the configuration of the page. Nothing is asked of the network until a caller does. */
export function createClient(environment: ClientEnvironment): Client {
  const page = readPage(environment);
  const live = createLiveValues(page, environment);
  let isTampered = false;
  if (page) isIntact(page.element, environment).then(judge);

  function judge(intact: boolean) {
    isTampered = !intact;
    if (isTampered) environment.reportError(new REPError("Cannot trust the page's configuration"));
  }

  function meta(): REPMeta | null {
    if (!page) return null;
    const { sensitive, _meta: { version, injected_at, hot_reload } } = page.payload;
    return {
      version,
      injectedAt: new Date(injected_at),
      integrityValid: !isTampered,
      publicCount: Object.keys(live.getAll()).length,
      sensitiveAvailable: !!sensitive,
      hotReloadAvailable: !!hot_reload,
    };
  }

  return {
    get: ((key: string, defaultValue?: string) => live.getAll()[key] ?? defaultValue) as Client["get"],
    getSecure: createSensitiveReader(page?.payload, environment),
    verify: () => !!page && !isTampered,
    meta,
    ...live,
  };
}
