/** What {@linkcode deriveKey} binds a key to. */
export interface DerivationOptions {
  /** The epoch: each has keys of its own. */
  salt: string;
  /** What the key is for: keys for two purposes have nothing in common. */
  info: string;
}

/** REP-RFC-0001 §8.2.1. */
export const BLOB_KEY_INFO = "rep-blob-encryption-v1";
export const INTEGRITY_KEY_INFO = "rep-integrity-v1";

const encoder = new TextEncoder();

/**
 * Derives 32 bytes from the master secret by HKDF-SHA-256 (RFC 5869). From what is derived there is no way back to the
 * secret, nor to what is derived for another epoch or purpose (spec, Session key, rule 1).
 */
export async function deriveKey(
  master: Uint8Array<ArrayBuffer>,
  { salt, info }: DerivationOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const material = await crypto.subtle.importKey("raw", master, "HKDF", false, ["deriveBits"]);
  const algorithm = { name: "HKDF", hash: "SHA-256", salt: encoder.encode(salt), info: encoder.encode(info) };
  return new Uint8Array(await crypto.subtle.deriveBits(algorithm, material, 256));
}
