import { encryptAesGcm } from "@std/crypto/aes-gcm";
import { encodeBase64 } from "@std/encoding/base64";

/** What {@linkcode encryptSensitive} encrypts with. */
export interface EncryptOptions {
  /** 32 bytes. */
  key: Uint8Array<ArrayBuffer>;
  /** What the values belong to: the page's integrity token. */
  integrity: string;
}

const encoder = new TextEncoder();

/**
 * Encrypts SENSITIVE values for a page (REP-RFC-0001 §8.2): base64 of nonce, ciphertext and tag of AES-256-GCM, with the
 * integrity token as additional data.
 */
export async function encryptSensitive(
  values: ReadonlyMap<string, string>,
  { key, integrity }: EncryptOptions,
): Promise<string> {
  const aesKey = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt"]);
  const plaintext = encoder.encode(JSON.stringify(Object.fromEntries(values)));
  return encodeBase64(await encryptAesGcm(aesKey, plaintext, { additionalData: encoder.encode(integrity) }));
}
