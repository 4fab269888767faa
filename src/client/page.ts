/**
 * The property of `globalThis` that contains the gateways of a server's process. This module cannot import the gateways,
 * since browsers load it, too.
 */
export const GATEWAYS: unique symbol = Symbol.for("@rep/gateway");

/** The value of {@linkcode GATEWAYS}, as the client uses it. */
export interface ServerValues {
  /** Returns the PUBLIC values of the page that is being rendered; `undefined` if no gateway runs. */
  values(): Values | undefined;
}

/** The parts of a browser's `globalThis` that the client uses. Tests replace them. */
export interface Browser {
  /** Missing in workers and on servers, where the client uses none of the other parts. */
  readonly document?: {
    readonly hidden: boolean;
    /** Missing in doubles of a document, which are never `loading`. */
    readonly readyState?: string;
    getElementById(id: string): PageElement | null;
  };
  /** The client resolves URLs against it, since a `<base>` element of the page could lead them to another origin. */
  readonly location: { readonly origin: string };
  readonly EventSource: new (url: string) => EventStream;
  /** `subtle` is missing in pages over plain HTTP, except from localhost (Web Cryptography API §10). */
  readonly crypto: {
    readonly subtle?: Pick<
      typeof globalThis.crypto.subtle,
      "decrypt" | "digest" | "importKey"
    >;
  };
  readonly console: { warn(message: string): void };
  /** On servers: the gateways of the process. */
  readonly [GATEWAYS]?: ServerValues;
  readonly Math: { random(): number };
  readonly performance: { now(): number };
  /** Reports an error without a caller to the `error` listeners and the console of the page. */
  reportError(error: unknown): void;
  fetch(url: string): Promise<Response>;
  addEventListener(type: PageEvent, listener: () => void): void;
  setTimeout(callback: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
}

/** An event of the page to which the client listens. `visibilitychange` bubbles from the document to the window. */
export type PageEvent = "online" | "pagehide" | "pageshow" | "visibilitychange";

/** The parts of the element with the payload that the client uses. */
export interface PageElement {
  readonly textContent: string | null;
  getAttribute(name: string): string | null;
}

/** The parts of a `MessageEvent` that the client uses. */
export interface StreamMessage {
  readonly type: string;
  readonly data: string;
  readonly lastEventId: string;
}

/** The parts of an `EventSource` that the client uses. */
export interface EventStream {
  readonly readyState: number;
  onopen: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  addEventListener(
    type: string,
    listener: (event: StreamMessage) => void,
  ): void;
  close(): void;
}

/** The error of {@linkcode Client.getSecure}. The message says why and, where possible, what to do. */
export class REPError extends Error {
  /** `"REPError"`, also in minified code. */
  override name = "REPError";
}

/** Values of variables by name. */
export type Values = Readonly<Record<string, string>>;

/**
 * Returns whether the hash of an element's text equals its integrity attribute. The text counts as intact without
 * `crypto.subtle`, which is missing over plain HTTP. That does not protect the page anyway.
 */
export async function isIntact(
  element: PageElement,
  { crypto }: Browser,
): Promise<boolean> {
  const integrity = element.getAttribute("data-rep-integrity");
  if (!integrity || !crypto.subtle) return true;
  const text = encode(element.textContent!);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", text));
  return integrity === `sha256-${btoa(String.fromCharCode(...digest))}`;
}

/** Returns a frozen copy without a prototype, so that a name such as `toString` exists only if it is configured. */
export function freezeValues(values: Values | undefined): Values {
  return Object.freeze({ __proto__: null, ...values } as unknown as Values);
}

/** Waits, for this many milliseconds. */
export function pause(browser: Browser, ms: number): Promise<void> {
  return new Promise((resolve) => browser.setTimeout(resolve, ms));
}

/** Encodes text as UTF-8. */
export function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
