import { parseManifest } from "../src/core/config/variables/manifest.ts";
import type { SnapshotInput } from "../src/core/config/variables/snapshot.ts";
import { TIERS } from "../src/core/config/variables/tiers.ts";

/** The input of a snapshot as tests write it: with the text of the manifest. */
export interface TestSnapshotInput extends Omit<SnapshotInput, "manifest"> {
  readonly manifest?: string | undefined;
}

/** Returns the input of a snapshot: without variables and without a manifest, unless a test says so. */
export function snapshotInput(
  { manifest: text, ...some }: Partial<TestSnapshotInput>,
): SnapshotInput {
  return {
    environment: {},
    stored: undefined,
    acceptPublic: [],
    manifest: text === undefined ? undefined : parseManifest(text),
    strict: false,
    rejectsSuspiciousValues: false,
    requiredTiers: TIERS,
    ...some,
  };
}
