import type { SnapshotInput } from "../src/config/snapshot.ts";

/** Returns the input of a snapshot: without variables and without a manifest, unless a test says so. */
export function snapshotInput(some: Partial<SnapshotInput>): SnapshotInput {
  const none = { manifest: undefined, manifestPath: undefined, loadPatternLibrary: undefined };
  return { environment: {}, strict: false, ...none, ...some };
}
