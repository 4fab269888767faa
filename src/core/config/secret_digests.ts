import type { Epochs } from "../keys/epochs.ts";
import { canonicalJson } from "../values/hash.ts";
import type { Snapshot } from "./variables/snapshot.ts";

/** Keyed hashes of the values that nobody may see: replicas with the same values and master key have the same. */
export interface SecretDigests {
  readonly sensitive_digest?: string;
  readonly server_digest?: string;
}

/** Returns the digests of a snapshot; none before the master key has been loaded. */
export async function digestSecrets(
  { sensitive, server, serverValue }: Snapshot,
  epochs: Pick<Epochs, "digest" | "hasMasterKey">,
): Promise<SecretDigests> {
  if (!epochs.hasMasterKey) return {};
  const values = [...server].map((name) =>
    [name, serverValue(name) ?? ""] as const
  );
  return {
    sensitive_digest: await epochs.digest(canonicalJson(sensitive)),
    server_digest: await epochs.digest(canonicalJson(new Map(values))),
  };
}
