import { type DeclaredPattern, patternIssue } from "./apply_manifest.ts";
import { evaluatePatterns } from "./evaluate_patterns.ts";

/**
 * Evaluates the patterns of a manifest, and returns one sentence per issue. Only values of PUBLIC variables are named.
 */
export async function checkPatterns(patterns: readonly DeclaredPattern[]): Promise<string[]> {
  const results = await evaluatePatterns(patterns.map(({ pattern, value }) => ({ pattern, value })));
  return patterns.flatMap((declared, index) => patternIssue(declared, results[index] ?? "skipped") ?? []);
}
