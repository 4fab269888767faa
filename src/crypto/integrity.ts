import { encodeBase64 } from "@std/encoding/base64";

const encoder = new TextEncoder();

/** The one text of a map: names sorted by code units, no white space (REP-RFC-0001 §8.3). */
export function canonicalJson(map: ReadonlyMap<string, string>): string {
  const members = [...map]
    .sort(([a], [b]) => a < b ? -1 : 1)
    .map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return `{${members.join(",")}}`;
}

/**
 * The integrity token of the PUBLIC values: HMAC-SHA-256 over their canonical JSON and `|`. RFC §8.3 has the encrypted values
 * behind the bar, which in turn are bound to the token (§8.2): like the Go gateway, we read that as nothing.
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

/** A hash in the form of Subresource Integrity (W3C SRI §3.1). */
export async function sriHash(text: string): Promise<string> {
  return `sha256-${encodeBase64(await crypto.subtle.digest("SHA-256", encoder.encode(text)))}`;
}
