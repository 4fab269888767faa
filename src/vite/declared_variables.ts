import { readFile } from "node:fs/promises";
import { parseManifest } from "../core/config/variables/manifest.ts";
import { ConfigurationError } from "../core/config/variables/snapshot.ts";
import type { Variable } from "../core/config/variables/tiers.ts";

/** A variable of the manifest. */
export type DeclaredVariable = Pick<Variable, "name" | "tier">;

/**
 * Returns the variables of the manifest as it is now.
 *
 * @throws {Error} If it cannot be read.
 * @throws {ConfigurationError} If it is invalid: some variables may be missing.
 */
export async function readDeclared(path: string): Promise<DeclaredVariable[]> {
  const text = await readFile(path, "utf8");
  const { variables, issues } = parseManifest(text, { path });
  if (issues.length > 0) throw new ConfigurationError(issues);
  return [...variables].map(([name, { tier }]) => ({ name, tier }));
}
