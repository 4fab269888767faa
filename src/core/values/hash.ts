import { encodeBase64 } from "@std/encoding/base64";
import { toUtf8 } from "./utf8.ts";

/** Returns the SHA-256 hash of text in the format of Subresource Integrity: `sha256-` and base64 (W3C SRI §3.1). */
export async function sriHash(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", toUtf8(text));
  return `sha256-${encodeBase64(digest)}`;
}

/** Serializes a map as canonical JSON: names sorted by code units, no whitespace (REP-RFC-0001 §8.3). */
export function canonicalJson(map: ReadonlyMap<string, string>): string {
  const members = [...map]
    .sort(([a], [b]) => a < b ? -1 : 1)
    .map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return `{${members.join(",")}}`;
}

/** Returns the hash of PUBLIC values, which is the same on all replicas with the same values. */
export function publicHash(
  publicValues: ReadonlyMap<string, string>,
): Promise<string> {
  return sriHash(canonicalJson(publicValues));
}

/** Returns the beginning of a hash, with which logs, metrics and URLs identify a configuration. */
export function shortHash(hash: string): string {
  const start = hash.slice("sha256-".length, "sha256-".length + 12);
  return start.replaceAll("+", "-").replaceAll("/", "_");
}
