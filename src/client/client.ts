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
   * Returns the value of a PUBLIC variable, or the default if it is not set. On a server with a gateway in its process, it
   * returns the value of the page that is being rendered. On other servers, no variable is set.
   */
  get(key: string, defaultValue: string): string;
  /** Returns the value of a PUBLIC variable, or `undefined` if it is not set. */
  get(key: string, defaultValue?: undefined): string | undefined;
  /** Returns all PUBLIC variables as a frozen object. Each change replaces it, so `===` detects changes. */
  getAll(): Values;
  /**
   * Returns the value of a SENSITIVE variable. The first call requests a session key from the gateway and decrypts all
   * SENSITIVE variables, which then stay in memory. By default, the gateway issues at most 10 keys per minute to a client.
   * If it has issued too many, the call waits once, as long as the gateway says, but at most a minute.
   *
   * @throws {REPError} If the variable is not set, the gateway rejects the request for the key, or the page is not a
   * secure context. The message says which; `cause` is the underlying error, if any.
   */
  getSecure(key: string): Promise<string>;
  /**
   * Returns whether the page contains an intact configuration. A configuration that can be parsed counts as intact until
   * its hash is computed, shortly after the start, and in a page without `crypto.subtle`.
   */
  verify(): boolean;
  /** Returns the metadata of the configuration, or `null` if the page has none. */
  meta(): REPMeta | null;
  /**
   * Subscribes to changes of a PUBLIC variable. The first subscription opens the stream of changes, which begins with the
   * changes since the page was generated. The stream closes when the last subscription ends, and while the page is hidden.
   * When the page is shown again, it receives what has changed.
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
  /** Keeps the stream of changes open while the page is hidden, for apps that need each change immediately. */
  listenInBackground(): void;
  /** Returns the state of the stream of changes. @experimental */
  status(): StreamStatus;
  /**
   * Calls back when {@linkcode Client.status} may have changed. This subscription does not open the stream.
   *
   * @returns A function that ends the subscription.
   * @experimental
   */
  onStatus(callback: (status: StreamStatus) => void): () => void;
}

const NO_CONFIGURATION =
  "Cannot find the page's configuration: expected it from the gateway, not behind it or cached";

/**
 * Creates the client of a page and reads its configuration, without a network request.
 *
 * Closures contain the state, here and in the rest of this folder, so that the functions of a client also work detached
 * from it. Classes would exceed the size limit of the bundle (REP-RFC-0001 §5.1).
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
        "Cannot verify the page's configuration",
      ),
    );
  }

  /**
   * Prints on the console, once, what is missing. In a page without a configuration, that is always the configuration. On
   * servers and in workers it prints nothing.
   */
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

  /** Warns in development that a variable is not set. */
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
    ...live, // all other functions; naming each would exceed the size limit
    getAll,
  };
}
