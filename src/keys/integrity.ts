import { encodeBase64 } from "@std/encoding/base64";

const encoder = new TextEncoder();

/** Serializes a map as canonical JSON: names sorted by code units, no whitespace (REP-RFC-0001 §8.3). */
export function canonicalJson(map: ReadonlyMap<string, string>): string {
  const members = [...map]
    .sort(([a], [b]) => a < b ? -1 : 1)
    .map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return `{${members.join(",")}}`;
}

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
  const key = await crypto.subtle.importKey("raw", integrityKey, algorithm, false, ["sign"]);
  const signature = await crypto.subtle.sign(algorithm.name, key, encoder.encode(`${canonicalJson(publicValues)}|`));
  return `hmac-sha256:${encodeBase64(signature)}`;
}

/** Returns a short digest of PUBLIC values, for URLs. */
export async function stateDigest(publicValues: ReadonlyMap<string, string>): Promise<string> {
  const hash = await sriHash(canonicalJson(publicValues));
  return hash.slice("sha256-".length, "sha256-".length + 16).replaceAll("+", "-").replaceAll("/", "_");
}

/** Returns the SHA-256 hash of text in the format of Subresource Integrity: `sha256-` and base64 (W3C SRI §3.1). */
export async function sriHash(text: string): Promise<string> {
  return `sha256-${encodeBase64(await crypto.subtle.digest("SHA-256", encoder.encode(text)))}`;
}
