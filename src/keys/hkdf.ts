/** Options of {@linkcode deriveKey}. */
interface DerivationOptions {
  /** The id of the epoch. */
  salt: string;
  /** The purpose of the key, such as {@linkcode SESSION_KEY_INFO}. */
  info: string;
}

/** The purpose of the session key, which encrypts SENSITIVE values (REP-RFC-0001 §8.2.1). */
export const SESSION_KEY_INFO = "rep-blob-encryption-v1";
/** The purpose of the key that authenticates PUBLIC values. */
export const INTEGRITY_KEY_INFO = "rep-integrity-v1";
/** The purpose of the bytes that identify a master key without revealing it. */
export const FINGERPRINT_INFO = "rep-master-key-fingerprint-v1";

const encoder = new TextEncoder();

/**
 * Derives a key of 32 bytes from the master key with HKDF-SHA-256 (RFC 5869). Neither the master key nor the key of
 * another epoch or purpose can be derived from it (endpoint specification, Session key, rule 1).
 */
export async function deriveKey(
  masterKey: Uint8Array<ArrayBuffer>,
  { salt, info }: DerivationOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const baseKey = await crypto.subtle.importKey(
    "raw",
    masterKey,
    "HKDF",
    false,
    ["deriveBits"],
  );
  const algorithm = {
    name: "HKDF",
    hash: "SHA-256",
    salt: encoder.encode(salt),
    info: encoder.encode(info),
  };
  return new Uint8Array(
    await crypto.subtle.deriveBits(algorithm, baseKey, 256),
  );
}
