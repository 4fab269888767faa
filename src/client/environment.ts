/** The parts of a browser's `globalThis` that the client uses, and no more: a test can give it others. */
export interface ClientEnvironment {
  /** Missing outside a page, in a worker or on a server: there the client is unavailable, and uses nothing else. */
  readonly document?: { getElementById(id: string): PageElement | null };
  readonly EventSource: new (url: string) => EventStream;
  /** `subtle` is missing in pages that came over plain HTTP, unless from localhost (Web Cryptography API §10). */
  readonly crypto: { readonly subtle?: Pick<SubtleCrypto, "decrypt" | "digest" | "importKey"> };
  readonly console: { warn(message: string): void };
  readonly Math: { random(): number };
  /** For errors that have no caller to go to: tells the page's `error` listeners, and its console. */
  reportError(error: unknown): void;
  fetch(url: string): Promise<Response>;
  addEventListener(type: "online" | "pagehide" | "pageshow", listener: () => void): void;
  setTimeout(callback: () => void, ms: number): unknown;
}

/** What the client needs of the element that holds the payload. */
export interface PageElement {
  readonly baseURI: string;
  readonly textContent: string | null;
  getAttribute(name: string): string | null;
}

/** What the client needs of an `EventSource`. */
export interface EventStream {
  readonly readyState: number;
  onopen: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  addEventListener(type: string, listener: (event: MessageEvent<string>) => void): void;
  close(): void;
}
