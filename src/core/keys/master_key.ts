import { decodeBase64 } from "@std/encoding/base64";
import { retryConflicts, type RetryOptions } from "../store/commits.ts";
import type { Store } from "../store/store.ts";

/** The size of the master key in bytes: that of the keys of AES-256 and HMAC-SHA-256. */
export const MASTER_KEY_BYTES = 32;

/** What a master key is, for messages. */
export const EXPECTED_MASTER_KEY =
  `base64 of ${MASTER_KEY_BYTES} bytes, as openssl rand -base64 ${MASTER_KEY_BYTES} prints`;

const KEY = ["master-key"];

/**
 * Parses a master key.
 *
 * @param text Base64 of 32 bytes, such as `openssl rand -base64 32` prints.
 * @throws {RangeError} If it is not. The message does not contain the text.
 */
export function parseMasterKey(text: string): Uint8Array<ArrayBuffer> {
  const bytes = tryDecodeBase64(text.trim());
  if (bytes?.length === MASTER_KEY_BYTES) return bytes;
  const got = bytes === undefined ? "invalid base64" : `${bytes.length} bytes`;
  throw new RangeError(
    `Cannot use the master key: expected ${EXPECTED_MASTER_KEY}, got ${got}`,
  );
}

function tryDecodeBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return decodeBase64(text);
  } catch {
    return undefined; // the error would contain part of the text
  }
}

/** Options of {@linkcode sharedMasterKey}. */
export interface SharedMasterKeyOptions extends RetryOptions {
  /** The key that this process has loaded before: it is written back if the store has none any more. */
  known?: Uint8Array<ArrayBuffer> | undefined;
}

/**
 * Loads the master key from the store. The first process creates it, and all others use the same.
 *
 * @throws {StoreUnavailableError} If the store is unavailable.
 */
export function sharedMasterKey(
  store: Store,
  { known, clock, random }: SharedMasterKeyOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  return retryConflicts(async () => {
    const entry = await store.get<Uint8Array<ArrayBuffer>>(KEY);
    if (entry !== undefined) return entry.value;
    const created = known ??
      crypto.getRandomValues(new Uint8Array(MASTER_KEY_BYTES));
    const version = await store.commit([{ key: KEY, version: null }], [{
      key: KEY,
      value: created,
    }]);
    return version === undefined ? undefined : created;
  }, { clock, random });
}
