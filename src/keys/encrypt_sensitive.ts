import { encryptAesGcm } from "@std/crypto/aes-gcm";
import { encodeBase64 } from "@std/encoding/base64";

/** Options of {@linkcode encryptSensitive}. */
interface EncryptOptions {
  /** The AES-256 key, 32 bytes. */
  key: Uint8Array<ArrayBuffer>;
  /** The integrity token of the page, which is authenticated together with the values. */
  integrity: string;
}

const encoder = new TextEncoder();

/**
 * Encrypts the SENSITIVE values of a page with AES-256-GCM, with the integrity token as additional data
 * (REP-RFC-0001 §8.2).
 *
 * @param values Values by name, which are encrypted as one JSON object.
 * @returns Base64 of nonce (12 bytes), ciphertext and tag (16 bytes).
 */
export async function encryptSensitive(
  values: ReadonlyMap<string, string>,
  { key, integrity }: EncryptOptions,
): Promise<string> {
  const aesKey = await crypto.subtle.importKey("raw", key, "AES-GCM", false, [
    "encrypt",
  ]);
  const plaintext = encoder.encode(JSON.stringify(Object.fromEntries(values)));
  return encodeBase64(
    await encryptAesGcm(aesKey, plaintext, {
      additionalData: encoder.encode(integrity),
    }),
  );
}
