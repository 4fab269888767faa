import { deriveKey, FINGERPRINT_INFO } from "../src/core/keys/epochs.ts";

/** The `kid` of an epoch, as pages contain it. */
export async function kidOf(
  epoch: string,
  masterKey: Uint8Array<ArrayBuffer>,
): Promise<string> {
  const fingerprint = await deriveKey(masterKey, "", FINGERPRINT_INFO);
  return `${epoch}-${fingerprint.toHex().slice(0, 12)}`;
}
