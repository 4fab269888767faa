import { applyManifest } from "../../config/apply_manifest.ts";
import type { Environment } from "../../config/classify.ts";
import { formatValue } from "../../config/format_value.ts";
import { scanForSecrets } from "../../config/guardrails.ts";
import type { Manifest } from "../../config/manifest.ts";
import { buildSnapshot, ConfigurationError, MAX_NAME_BYTES } from "../../config/snapshot.ts";
import { environmentName, type Tier, type Variable } from "../../config/tier.ts";

/** Options of {@linkcode validateAssignments}. */
interface ValidateOptions {
  /** Environment of the command: a name that is SENSITIVE or SERVER there cannot be PUBLIC. */
  environment: Environment;
  manifest: Manifest | undefined;
  /** Whether to accept values that look like secrets. */
  force: boolean;
}

/**
 * Validates variables before they are written to the store.
 *
 * @returns Warnings.
 * @throws {ConfigurationError} If a variable is rejected. Its issues do not include values that look like secrets.
 */
export async function validateAssignments(
  values: ReadonlyMap<string, string>,
  options: ValidateOptions,
): Promise<string[]> {
  const variables = [...values].map(([name, value]): Variable => ({ name, tier: "public", value }));
  const secrets = scanForSecrets(variables).map(({ name, detail }) => `${publicVariable(name)}: ${detail}`);
  if (!options.force) {
    rejectIfAny(secrets.map((secret) => `Cannot set ${secret}; anyone could read it; use --force to set it anyway`));
  }
  await checkSizesAndTiers(variables, options.environment);
  const deprecated = options.manifest === undefined ? [] : await checkManifest(variables, options.manifest);
  return [
    ...secrets.map((secret) => `Set despite the warning: ${secret}`),
    ...deprecated.map((variable) => `Deprecated: ${variable}`),
  ];
}

/**
 * Parses the name of a PUBLIC variable, with or without its prefix.
 *
 * @returns The name without the prefix.
 * @throws {ConfigurationError} If the name is invalid.
 */
export function publicName(key: string): string {
  const name = key.replace(/^REP_PUBLIC_/, "");
  const [, tier] = /^REP_(SENSITIVE|SERVER)_/i.exec(name) ?? [];
  const failure = `Cannot use the name ${formatValue(key)}:`;
  if (tier !== undefined) {
    const reason = "anyone with access to the database could read the value; set it in the environment of the gateway";
    rejectIfAny([`${failure} ${tier.toUpperCase()} variables cannot be in the store: ${reason}`]);
  }
  if (/^REP_GATEWAY_/i.test(name)) {
    rejectIfAny([`${failure} it is an option of the gateway; set it in the environment of the gateway`]);
  }
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    rejectIfAny([`${failure} expected letters, digits and _, not beginning with a digit`]);
  }
  if (name.length > MAX_NAME_BYTES) {
    rejectIfAny([`${failure} expected at most ${MAX_NAME_BYTES} bytes, got ${name.length}`]);
  }
  return name;
}

/** Builds a snapshot as the gateway would, from the variables and from those that they may conflict with. */
async function checkSizesAndTiers(variables: readonly Variable[], environment: Environment): Promise<void> {
  const assigned = variables.map((variable) => [environmentName(variable), variable.value]);
  const conflicting = variables.flatMap(({ name }) =>
    OTHER_TIERS.map((tier) => environmentName({ name, tier })).filter((other) => environment[other] !== undefined)
  );
  const others = conflicting.map((name) => [name, ""]); // the values do not matter
  const none = { manifest: undefined, manifestPath: undefined, requiredTiers: [], loadPatternLibrary: undefined };
  await buildSnapshot({ environment: Object.fromEntries([...others, ...assigned]), strict: false, ...none });
}

const OTHER_TIERS: readonly Tier[] = ["sensitive", "server"];

/** Applies the declarations of these variables only: others may be set in the environment of the gateway. */
async function checkManifest(variables: readonly Variable[], manifest: Manifest): Promise<readonly string[]> {
  const names = new Set(variables.map(({ name }) => name));
  const declared = [...manifest.variables].filter(([name]) => names.has(name));
  const relevant: Manifest = { ...manifest, variables: new Map(declared) };
  const result = await applyManifest(variables, relevant, { requiredTiers: [], loadPatternLibrary: undefined });
  rejectIfAny(result.issues);
  return result.deprecated.map(({ name, message }) => message === undefined ? name : `${name}: ${message}`);
}

function publicVariable(name: string): string {
  return environmentName({ name, tier: "public" });
}

function rejectIfAny(issues: readonly string[]): void {
  if (issues.length > 0) throw new ConfigurationError(issues);
}
