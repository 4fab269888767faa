import { encryptAesGcm } from "@std/crypto/aes-gcm";
import { encodeBase64 } from "@std/encoding/base64";
import { canonicalJson } from "../values/hash.ts";
import { toUtf8 } from "../values/utf8.ts";

// What a page's keys do: one authenticates its PUBLIC values, the other encrypts its SENSITIVE ones.

/**
 * Returns the integrity token of the PUBLIC values: `hmac-sha256:` and base64 of HMAC-SHA-256 over their canonical JSON
 * and `|`. REP-RFC-0001 §8.3 appends the encrypted values, but these depend on the token (§8.2), so nothing is
 * appended, as in REP's own gateway.
 *
 * @param integrityKey 32 bytes.
 */
export async function integrityToken(
  publicValues: ReadonlyMap<string, string>,
  integrityKey: Uint8Array<ArrayBuffer>,
): Promise<string> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey(
    "raw",
    integrityKey,
    algorithm,
    false,
    ["sign"],
  );
  const message = toUtf8(`${canonicalJson(publicValues)}|`);
  const signature = await crypto.subtle.sign(algorithm.name, key, message);
  return `hmac-sha256:${encodeBase64(signature)}`;
}

/**
 * Encrypts the SENSITIVE values of a page with AES-256-GCM, with the integrity token as additional data
 * (REP-RFC-0001 §8.2).
 *
 * @param values Values by name, which are encrypted as one JSON object.
 * @param sessionKey 32 bytes.
 * @param integrity The integrity token of the page, which is authenticated together with the values.
 * @returns Base64 of nonce (12 bytes), ciphertext and tag (16 bytes).
 */
export async function encryptSensitive(
  values: ReadonlyMap<string, string>,
  sessionKey: Uint8Array<ArrayBuffer>,
  integrity: string,
): Promise<string> {
  const key = await crypto.subtle.importKey(
    "raw",
    sessionKey,
    "AES-GCM",
    false,
    ["encrypt"],
  );
  const plaintext = toUtf8(JSON.stringify(Object.fromEntries(values)));
  const additionalData = toUtf8(integrity);
  return encodeBase64(await encryptAesGcm(key, plaintext, { additionalData }));
}
