import {
  type AnyChangeCallback,
  type ChangeCallback,
  createLiveValues,
  type StreamStatus,
} from "./live_values.ts";
import {
  type Browser,
  GATEWAYS,
  isIntact,
  readPage,
  REPError,
  type Values,
} from "./page.ts";
import { createSensitiveReader } from "./sensitive.ts";

/** Metadata of the page's configuration. */
export interface REPMeta {
  /** The version of the protocol. */
  version: string;
  /** When the gateway injected the configuration. */
  injectedAt: Date;
  /** The result of {@linkcode Client.verify}. */
  integrityValid: boolean;
  /** The current number of PUBLIC variables. */
  publicCount: number;
  /** Whether the page has SENSITIVE variables. */
  sensitiveAvailable: boolean;
  /** Whether the gateway sends changes. */
  hotReloadAvailable: boolean;
}

/** The configuration of a page (REP-RFC-0001 §5.2). */
export interface Client {
  /**
   * Returns the value of a PUBLIC variable, or the default if it is not set. On a server, it is the value of the page
   * that is being rendered, if a gateway runs in the process; otherwise no variable is set there.
   */
  get(key: string, defaultValue: string): string;
  /** Returns the value of a PUBLIC variable, or `undefined` if it is not set. */
  get(key: string, defaultValue?: undefined): string | undefined;
  /** Returns all PUBLIC variables as a frozen object. Each change replaces it, so `===` detects changes. */
  getAll(): Values;
  /**
   * Returns the value of a SENSITIVE variable. The first call requests a session key from the gateway, by default at
   * most 10 per minute and client, and decrypts all SENSITIVE variables, which then stay in memory. If the gateway has
   * issued too many keys to this client, it waits once, for as long as the gateway says, at most a minute.
   *
   * @throws {REPError} If the variable is not set, the gateway rejects the request for the key, or the page is not a
   * secure context. The message says which; `cause` is the underlying error, if any.
   */
  getSecure(key: string): Promise<string>;
  /**
   * Returns whether the page has a configuration whose integrity is intact. Until its hash is computed, shortly after
   * the start, and without `crypto.subtle`, a configuration that can be parsed counts as intact.
   */
  verify(): boolean;
  /** Returns the metadata of the configuration, or `null` if the page has none. */
  meta(): REPMeta | null;
  /**
   * Subscribes to changes of a PUBLIC variable. The first subscription opens the stream of changes, which begins with
   * the changes since the page was generated; the end of the last one closes it. So does hiding the page, for as long as
   * it is hidden: what changed meanwhile arrives when it is shown.
   *
   * @returns A function that ends the subscription.
   */
  onChange(key: string, callback: ChangeCallback): () => void;
  /**
   * Subscribes to changes of all PUBLIC variables, like {@linkcode Client.onChange}.
   *
   * @returns A function that ends the subscription.
   */
  onAnyChange(callback: AnyChangeCallback): () => void;
  /** Keeps the stream of changes open while the page is hidden, for apps that have to hear of changes at once. */
  listenInBackground(): void;
  /** Returns the state of the stream of changes. @experimental */
  status(): StreamStatus;
  /**
   * Calls back when {@linkcode Client.status} may have changed. It does not open the stream.
   *
   * @returns A function that ends the subscription.
   * @experimental
   */
  onStatus(callback: (status: StreamStatus) => void): () => void;
}

const NO_CONFIGURATION =
  "Cannot find the page's configuration: docs/vite.md#no-configuration";

/**
 * Creates the client of a page and reads its configuration, without a network request.
 *
 * The state is in closures, here and in the rest of this folder: the functions of a client also work detached from it,
 * and classes would exceed the size limit of the bundle (REP-RFC-0001 §5.1).
 */
export function createClient(browser: Browser): Client {
  const page = readPage(browser);
  const live = createLiveValues(page, browser, warn);
  const warned: Record<string, string> = {};
  let isTampered = false;
  if (page) isIntact(page.element, browser).then(setIntegrity);

  function setIntegrity(intact: boolean) {
    if (intact) return;
    isTampered = true;
    browser.reportError(
      new REPError(
        "Cannot use the page's configuration: its integrity check failed",
      ),
    );
  }

  /** Says on the console, once, what is missing: of a page without configuration, always that. Only pages have any. */
  function warn(missing: string) {
    const text = page ? missing : NO_CONFIGURATION;
    if (!browser.document || warned[text]) return;
    browser.console.warn(`[REP] ${warned[text] = text}`);
  }

  function getAll() {
    if (page) return live.getAll();
    warn("");
    return browser[GATEWAYS]?.values() ?? live.getAll();
  }

  function get(key: string, defaultValue?: string) {
    return getAll()[key] ?? defaultValue ?? reportMissing(key);
  }

  /** Says in development that a variable is not set. */
  function reportMissing(key: string) {
    if (!page || !browser.location.origin.includes("localhost")) return;
    warn(`Cannot find "${key}" among the PUBLIC variables`);
  }

  function meta(): REPMeta | null {
    if (!page) return null;
    const { sensitive, _meta } = page.payload;
    return {
      version: _meta.version,
      injectedAt: new Date(_meta.injected_at),
      integrityValid: !isTampered,
      publicCount: Object.keys(live.getAll()).length,
      sensitiveAvailable: !!sensitive,
      hotReloadAvailable: !!_meta.hot_reload,
    };
  }

  return {
    get: get as Client["get"],
    getSecure: createSensitiveReader(page?.payload, browser),
    verify: () => !!page && !isTampered,
    meta,
    ...live, // all others; to name each would exceed the size limit
    getAll,
  };
}
