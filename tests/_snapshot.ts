import type { SnapshotInput } from "../src/config/snapshot.ts";
import { TIERS } from "../src/config/tier.ts";

/** Returns the input of a snapshot: without variables and without a manifest, unless a test says so. */
export function snapshotInput(some: Partial<SnapshotInput>): SnapshotInput {
  const none = {
    manifest: undefined,
    manifestPath: undefined,
    requiredTiers: TIERS,
    loadPatternLibrary: undefined,
  };
  return { environment: {}, strict: false, ...none, ...some };
}
