import type { ClientEnvironment, PageElement } from "./environment.ts";
import { REPError } from "./rep_error.ts";

/** Names and values of variables. */
export type Values = Readonly<Record<string, string>>;

/** What the gateway writes into a page (REP-RFC-0001 §4.3). */
export interface Payload {
  readonly public: Values;
  /** Base64 of nonce, ciphertext and tag. */
  readonly sensitive?: string;
  readonly _meta: {
    readonly version: string;
    readonly injected_at: string;
    readonly integrity: string;
    readonly key_endpoint?: string;
    readonly hot_reload?: string;
  };
}

/** A payload, and where it was found. */
export interface Page {
  readonly payload: Payload;
  readonly element: PageElement;
  readonly values: Values;
  /** Where the changes since then are to be had, if hot reload is on. */
  readonly changes: URL | undefined;
}

/** Reads the payload of the page; a malformed one is reported, and then as good as none (REP-RFC-0001 §5.3). */
export function readPage(environment: ClientEnvironment): Page | undefined {
  const element = environment.document?.getElementById("__rep__");
  try {
    return element ? parsePage(element) : undefined;
  } catch (cause) {
    environment.reportError(new REPError("Cannot read the page's configuration", { cause }));
    return undefined;
  }
}

function parsePage(element: PageElement): Page {
  const payload: Payload = JSON.parse(element.textContent!);
  const { public: { ...values }, _meta: { hot_reload } } = payload; // throws if one of them is not there
  return { payload, element, values, changes: hot_reload ? new URL(hot_reload, element.baseURI) : undefined };
}

/**
 * Whether the text in the element is the one that its integrity attribute was made for. Without `crypto.subtle` nobody
 * can say, and a page that came over plain HTTP has no integrity to lose: it passes.
 */
export async function isIntact(element: PageElement, { crypto }: ClientEnvironment): Promise<boolean> {
  const integrity = element.getAttribute("data-rep-integrity");
  if (!integrity || !crypto.subtle) return true;
  const digest = await crypto.subtle.digest("SHA-256", encode(element.textContent!));
  return integrity === `sha256-${btoa(String.fromCharCode(...new Uint8Array(digest)))}`;
}

/** A frozen copy without a prototype: no name, be it `toString`, is found in it unless it is configured. */
export function frozen(values: Values | undefined): Values {
  return Object.freeze({ __proto__: null, ...values } as unknown as Values);
}

/** A text's bytes in UTF-8. */
export function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
