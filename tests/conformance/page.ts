import { decodeBase64, encodeBase64 } from "@std/encoding/base64";
import { expect, Nonconformance } from "./check.ts";

/** What §8.1 calls the payload. Nothing about it is certain before it is checked. */
export interface Payload {
  readonly public: Record<string, string>;
  readonly sensitive?: string;
  readonly _meta: Record<string, unknown>;
}

/** A page in parts. */
export interface Page {
  readonly text: string;
  /** What is before the element and after it. */
  readonly around: readonly [before: string, after: string];
  readonly attributes: ReadonlyMap<string, string>;
  /** The text in the element. */
  readonly json: string;
  readonly payload: Payload;
}

const ELEMENT = /<script\b([^>]*\bid="?__rep__"?[^>]*)>([^]*?)<\/script>/;

/** Finds the element with the configuration. */
export function parsePage(text: string): Page {
  const match = ELEMENT.exec(text);
  expect(
    match !== null,
    `expected an element with the id __rep__, got ${text.slice(0, 120)}`,
  );
  const [element, attributes = "", json = ""] = match;
  return {
    text,
    around: [
      text.slice(0, match.index),
      text.slice(match.index + element.length),
    ],
    attributes: new Map(
      [...attributes.matchAll(/([\w-]+)="([^"]*)"/g)].map((
        [, name = "", value = ""],
      ) => [name, value]),
    ),
    json,
    payload: parsePayload(json),
  };
}

function parsePayload(json: string): Payload {
  try {
    return JSON.parse(json);
  } catch {
    throw new Nonconformance(
      `expected JSON in the element, got ${json.slice(0, 120)}`,
    );
  }
}

/**
 * Returns whether the element is where it has to be, and nothing else is another.
 *
 * @param marked The document, with `{rep}` where the element has to be. White space beside it may be added.
 */
export function isInserted(
  [start, end]: Page["around"],
  marked: string,
): boolean {
  const [before = "", after = ""] = marked.split("{rep}");
  return start.trimEnd() === before.trimEnd() &&
    end.trimStart() === after.trimStart();
}

/** Returns the SHA-256 of a text as Subresource Integrity writes it. */
export async function sriHash(text: string): Promise<string> {
  return `sha256-${
    encodeBase64(
      await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)),
    )
  }`;
}

/** The bytes of a nonce of AES-GCM (§8.2). */
export const NONCE_BYTES = 12;

/** Decrypts the SENSITIVE values (§8.2). */
export async function decrypt(
  { sensitive = "", _meta }: Payload,
  key: string,
): Promise<unknown> {
  const blob = decodeBase64(sensitive);
  const additionalData = new TextEncoder().encode(String(_meta.integrity));
  const algorithm = {
    name: "AES-GCM",
    iv: blob.slice(0, NONCE_BYTES),
    additionalData,
  };
  const cryptoKey = await crypto.subtle.importKey(
    "raw",
    decodeBase64(key),
    "AES-GCM",
    false,
    ["decrypt"],
  );
  try {
    const text = await crypto.subtle.decrypt(
      algorithm,
      cryptoKey,
      blob.slice(NONCE_BYTES),
    );
    return JSON.parse(new TextDecoder().decode(text));
  } catch {
    throw new Nonconformance(
      "expected values that AES-256-GCM decrypts with the integrity token as additional data",
    );
  }
}
