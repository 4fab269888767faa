/** The parts of a browser's `globalThis` that the client uses. Tests replace them. */
export interface ClientEnvironment {
  /** Missing in workers and on servers. Without it, the client is unavailable and uses none of the other parts. */
  readonly document?: {
    readonly hidden: boolean;
    getElementById(id: string): PageElement | null;
  };
  /** URLs are resolved against it: a `<base>` element in the page could lead them to another origin. */
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
  readonly Math: { random(): number };
  /** Reports an error without a caller to the `error` listeners and the console of the page. */
  reportError(error: unknown): void;
  fetch(url: string): Promise<Response>;
  addEventListener(type: PageEvent, listener: () => void): void;
  setTimeout(callback: () => void, ms: number): unknown;
}

/** An event of the page that the client listens to; `visibilitychange` bubbles from the document. */
export type PageEvent = "online" | "pagehide" | "pageshow" | "visibilitychange";

/** The part of the element with the payload that the client uses. */
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

/** The part of an `EventSource` that the client uses. */
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
