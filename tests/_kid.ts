import { deriveKey, FINGERPRINT_INFO } from "../src/keys/epochs.ts";
import { encodeHex } from "./_hex.ts";

/** The `kid` of an epoch, as pages contain it. */
export async function kidOf(
  epoch: string,
  masterKey: Uint8Array<ArrayBuffer>,
): Promise<string> {
  const fingerprint = await deriveKey(masterKey, "", FINGERPRINT_INFO);
  return `${epoch}-${encodeHex(fingerprint).slice(0, 12)}`;
}
