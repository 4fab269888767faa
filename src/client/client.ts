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
  pause,
  REPError,
  type Values,
} from "./page.ts";
import type { Payload } from "../core/pages/payload.ts";
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

/**
 * Creates the client of a page and reads its configuration, without a network request.
 *
 * While the browser parses the document, a script may run before the element with the configuration is there, or is
 * complete: an `async` one, or any while the parser waits for a style sheet. Until then, the client looks again at each call
 * and, for those who wait or have subscribed, every 50 ms. The event `DOMContentLoaded` would be too late, since it waits
 * for other scripts.
 *
 * Closures contain the state, here and in the rest of this folder, so that the functions of a client also work detached
 * from it. Classes would exceed the size limit of the bundle (REP-RFC-0001 §5.1).
 */
export function createClient(browser: Browser): Client {
  const { start, ...live } = createLiveValues(browser, look, warn);
  const warned: Record<string, string> = {};
  let problem =
    "Cannot find the page's configuration: expected __rep__ from the gateway";
  let isLoading = true;
  let isTampered = false;
  let payload: Payload | undefined;
  const loaded = load();

  /**
   * Returns the page's configuration, and looks for it first unless it is known. A malformed one counts as missing
   * (REP-RFC-0001 §5.3).
   */
  function look(): Payload | undefined {
    if (!isLoading) return payload;
    isLoading = browser.document?.readyState === "loading";
    const element = browser.document?.getElementById("__rep__");
    try {
      if (element) {
        const read = JSON.parse(element.textContent!);
        start(read, element.getAttribute("data-rep-build"));
        payload = read;
        isLoading = false;
        isIntact(element, browser).then(setIntegrity);
      }
    } catch (cause) {
      problem = "Cannot read the page's configuration";
      if (!isLoading) browser.reportError(new REPError(problem, { cause }));
    }
    return payload;
  }

  /** Waits until the configuration is read, or is known to be missing. */
  async function load() {
    const lookMs = 50;
    while (look(), isLoading) await pause(browser, lookMs);
    return payload;
  }

  function setIntegrity(intact: boolean) {
    if (intact) return;
    isTampered = true;
    browser.reportError(new REPError("Cannot verify the page's configuration"));
  }

  /**
   * Prints on the console, once, what is missing, if anything. In a page without a configuration, that is always the
   * configuration; while the document is parsed, nobody knows yet. On servers and in workers it prints nothing.
   */
  async function warn(findMissing: () => string | false) {
    if (isLoading) await loaded;
    const text = payload ? findMissing() : problem;
    if (!browser.document || !text || warned[text]) return;
    browser.console.warn(`[REP] ${warned[text] = text}`);
  }

  function getAll() {
    if (look()) return live.getAll();
    warn(() =>
      "Cannot get values before the page's configuration: expected defer"
    );
    return browser[GATEWAYS]?.values() ?? live.getAll();
  }

  function get(key: string, defaultValue?: string) {
    return getAll()[key] ?? defaultValue ?? reportMissing(key);
  }

  /** Warns in development that a variable is not set. */
  function reportMissing(key: string) {
    if (!payload || !browser.location.origin.includes("localhost")) return;
    warn(() => `Cannot find "${key}" among the PUBLIC variables`);
  }

  function meta(): REPMeta | null {
    const found = look();
    if (!found) return null;
    const { sensitive, _meta } = found;
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
    getSecure: createSensitiveReader(loaded, browser),
    verify: () => !!look() && !isTampered,
    meta,
    ...live, // all other functions; naming each would exceed the size limit
    getAll,
  };
}
