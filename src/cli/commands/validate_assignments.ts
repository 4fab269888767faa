import type { Environment } from "../../config/classify.ts";
import { formatValue } from "../../config/format_value.ts";
import { buildSnapshot, ConfigurationError, MAX_NAME_BYTES } from "../../config/snapshot.ts";
import { environmentName, type Tier } from "../../config/tier.ts";
import { readManifest } from "../sources/sources.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_line.ts";

/**
 * Validates PUBLIC variables before they are written to the store, by building a snapshot as the gateway would. Others
 * that the manifest requires may be set in the environment of the gateway.
 *
 * @returns Warnings.
 * @throws {ConfigurationError} If a variable is rejected. Its issues do not include values that look like secrets.
 */
export async function validateAssignments(
  values: ReadonlyMap<string, string>,
  { force, manifest: manifestPath }: Pick<CommandArguments, "force" | "manifest">,
  { environment: own }: Pick<CommandIo, "environment">,
): Promise<string[]> {
  const manifest = manifestPath === undefined ? undefined : (await readManifest(manifestPath)).text;
  const environment = environmentOf(values, own);
  const tiers = { requiredTiers: [], loadPatternLibrary: undefined } as const;
  const snapshot = await buildSnapshot({ environment, manifest, manifestPath, strict: false, ...tiers });
  const secrets = snapshot.warnings.filter(({ name }) => values.has(name))
    .map(({ name, detail }) => `${publicVariable(name)}: ${detail}`);
  if (!force && secrets.length > 0) {
    const advice = "anyone could read it; use --force to set it anyway";
    throw new ConfigurationError(secrets.map((secret) => `Cannot set ${secret}; ${advice}`));
  }
  return [
    ...secrets.map((secret) => `Set despite the warning: ${secret}`),
    ...snapshot.deprecated.map(({ name, message }) =>
      `Deprecated: ${name}${message === undefined ? "" : `: ${message}`}`
    ),
  ];
}

/** Returns the variables, and those that they are in conflict with: one of another tier cannot be PUBLIC. */
function environmentOf(values: ReadonlyMap<string, string>, own: Environment): Environment {
  const others = [...values.keys()].flatMap((name) => OTHER_TIERS.map((tier) => environmentName({ name, tier })));
  const conflicting = others.filter((name) => own[name] !== undefined).map((name) => [name, ""]); // no value is shown
  const assigned = [...values].map(([name, value]) => [publicVariable(name), value]);
  return Object.fromEntries([...conflicting, ...assigned]);
}

const OTHER_TIERS: readonly Tier[] = ["sensitive", "server"];

/**
 * Parses the name of a PUBLIC variable, with or without its prefix.
 *
 * @returns The name without the prefix.
 * @throws {ConfigurationError} If the name is invalid.
 */
export function publicName(key: string): string {
  const name = key.replace(/^REP_PUBLIC_/, "");
  const issue = nameIssue(name);
  if (issue !== undefined) throw new ConfigurationError([`Cannot use the name ${formatValue(key)}: ${issue}`]);
  return name;
}

function nameIssue(name: string): string | undefined {
  const [, tier] = /^REP_(SENSITIVE|SERVER)_/i.exec(name) ?? [];
  if (tier !== undefined) {
    const reason = "anyone with access to the database could read the value; set it in the environment of the gateway";
    return `${tier.toUpperCase()} variables cannot be in the store: ${reason}`;
  }
  if (/^REP_GATEWAY_/i.test(name)) return "it is an option of the gateway; set it in the environment of the gateway";
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return "expected letters, digits and _, not beginning with a digit";
  return name.length > MAX_NAME_BYTES ? `expected at most ${MAX_NAME_BYTES} bytes, got ${name.length}` : undefined;
}

function publicVariable(name: string): string {
  return environmentName({ name, tier: "public" });
}
