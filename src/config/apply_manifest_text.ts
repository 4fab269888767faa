import { type AppliedManifest, applyManifest } from "./apply_manifest.ts";
import { checkPatterns } from "./check_patterns.ts";
import { type Manifest, parseManifest } from "./manifest.ts";
import type { Variable } from "./tier.ts";

/** The result of {@linkcode applyManifestText}. */
export interface AppliedText extends Omit<AppliedManifest, "patterns"> {
  readonly manifest: Manifest;
}

/** Parses a manifest, applies it to variables, and evaluates its patterns. The result has all issues. */
export async function applyManifestText(variables: readonly Variable[], text: string): Promise<AppliedText> {
  const { manifest, issues } = parseManifest(text);
  const { patterns, ...applied } = applyManifest(variables, manifest);
  return { ...applied, manifest, issues: [...issues, ...applied.issues, ...await checkPatterns(patterns)] };
}
