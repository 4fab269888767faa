import type { ClientEnvironment, PageElement } from "./environment.ts";
import { REPError } from "./rep_error.ts";

/** Values of variables by name. */
export type Values = Readonly<Record<string, string>>;

/** The configuration in a page (REP-RFC-0001 §4.3). */
export interface Payload {
  readonly public: Values;
  /** The encrypted SENSITIVE values: base64 of nonce, ciphertext and tag. */
  readonly sensitive?: string;
  readonly _meta: {
    readonly version: string;
    readonly injected_at: string;
    readonly integrity: string;
    readonly key_endpoint?: string;
    readonly hot_reload?: string;
  };
}

/** A payload and the element that contains it. */
export interface Page {
  readonly payload: Payload;
  readonly element: PageElement;
  readonly values: Values;
  /** The URL of the stream of changes since the payload was generated; `undefined` without hot reload. */
  readonly changes: URL | undefined;
}

/** Reads the payload of the page. A malformed one is reported and treated like a missing one (REP-RFC-0001 §5.3). */
export function readPage(environment: ClientEnvironment): Page | undefined {
  const element = environment.document?.getElementById("__rep__");
  try {
    return element ? parsePage(element, environment) : undefined;
  } catch (cause) {
    environment.reportError(
      new REPError("Cannot read the page's configuration", { cause }),
    );
    return undefined;
  }
}

function parsePage(
  element: PageElement,
  { location }: ClientEnvironment,
): Page {
  const payload: Payload = JSON.parse(element.textContent!);
  const { public: { ...values }, _meta: { hot_reload } } = payload; // throws if one is missing
  return {
    payload,
    element,
    values,
    changes: hot_reload ? new URL(hot_reload, location.origin) : undefined,
  };
}

/**
 * Returns whether the hash of an element's text equals its integrity attribute. Without `crypto.subtle`, that is over
 * plain HTTP, which does not protect the page in the first place, the text counts as intact.
 */
export async function isIntact(
  element: PageElement,
  { crypto }: ClientEnvironment,
): Promise<boolean> {
  const integrity = element.getAttribute("data-rep-integrity");
  if (!integrity || !crypto.subtle) return true;
  const digest = await crypto.subtle.digest(
    "SHA-256",
    encode(element.textContent!),
  );
  return integrity ===
    `sha256-${btoa(String.fromCharCode(...new Uint8Array(digest)))}`;
}

/** Returns a frozen copy without a prototype, in which names such as `toString` are not found unless configured. */
export function freezeValues(values: Values | undefined): Values {
  return Object.freeze({ __proto__: null, ...values } as unknown as Values);
}

/** Encodes text as UTF-8. */
export function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
