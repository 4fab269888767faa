import { encodeBase64 } from "@std/encoding/base64";
import { canonicalJson } from "../values/hash.ts";

const encoder = new TextEncoder();

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
  const signature = await crypto.subtle.sign(
    algorithm.name,
    key,
    encoder.encode(`${canonicalJson(publicValues)}|`),
  );
  return `hmac-sha256:${encodeBase64(signature)}`;
}
