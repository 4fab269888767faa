import { decodeBase64 } from "@std/encoding/base64";
import { retryConflicts, type RetryOptions } from "../store/retry.ts";
import type { Store } from "../store/store.ts";

/** The bytes of a master secret, as many as AES-256 and HMAC-SHA-256 have. */
export const MASTER_KEY_BYTES = 32;

const KEY = ["master-key"];

/**
 * Reads a master secret from its text.
 *
 * @param text Base64 of 32 bytes, such as `openssl rand -base64 32` prints.
 * @throws {RangeError} If it is something else. The text is not in the message.
 */
export function parseMasterKey(text: string): Uint8Array<ArrayBuffer> {
  const bytes = bytesOf(text.trim());
  if (bytes?.length === MASTER_KEY_BYTES) return bytes;
  const got = bytes === undefined ? "something else" : `${bytes.length} bytes`;
  throw new RangeError(`Cannot use the master key: expected base64 of ${MASTER_KEY_BYTES} bytes, got ${got}`);
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return decodeBase64(text);
  } catch {
    return undefined; // the caller says what is wrong, without the text
  }
}

/** The master secret that all processes on a store agree on: the first of them makes it. */
export function sharedMasterKey(store: Store, options: RetryOptions): Promise<Uint8Array<ArrayBuffer>> {
  return retryConflicts(async () => {
    const entry = await store.get<Uint8Array<ArrayBuffer>>(KEY);
    if (entry !== undefined) return entry.value;
    const made = crypto.getRandomValues(new Uint8Array(MASTER_KEY_BYTES));
    const version = await store.commit([{ key: KEY, version: null }], [{ key: KEY, value: made }]);
    return version === undefined ? undefined : made;
  }, options);
}
