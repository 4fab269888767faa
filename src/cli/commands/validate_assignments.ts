import { applyManifest } from "../../variables/apply_manifest.ts";
import type { Environment } from "../../variables/classify.ts";
import { scanForSecrets } from "../../variables/guardrails.ts";
import { formatValue } from "../../variables/format_value.ts";
import type { Manifest } from "../../variables/manifest.ts";
import { parseCommandManifest } from "../manifest_settings.ts";
import { buildSnapshot, ConfigurationError, MAX_NAME_BYTES } from "../../variables/snapshot.ts";
import { environmentName, type Tier, type Variable } from "../../variables/tier.ts";

/** What values are measured by, beside the rules that are always the same. */
export interface ValidateOptions {
  /** The command's own: a name that it holds as SENSITIVE or SERVER cannot be PUBLIC. */
  environment: Environment;
  /** The text of the manifest. */
  manifest?: string | undefined;
  /** Whether values may look like secrets. */
  force: boolean;
}

/**
 * Says whether variables may be put into the store.
 *
 * @returns What somebody should know all the same.
 * @throws {ConfigurationError} If they may not; its issues say why, and do not hold a value that looks like a secret.
 */
export function validateAssignments(values: ReadonlyMap<string, string>, options: ValidateOptions): string[] {
  const variables = [...values].map(([name, value]): Variable => ({ name, tier: "public", value }));
  const warnings = scanForSecrets(variables).map(({ name, detail }) => `${inFull(name)}: ${detail}`);
  if (!options.force) {
    refuse(warnings.map((warning) => `Cannot set ${warning}; everybody could read it; --force sets it all the same`));
  }
  checkSizesAndTiers(variables, options.environment);
  const deprecated = options.manifest === undefined ? [] : checkManifest(variables, options.manifest);
  return [
    ...warnings.map((warning) => `Set all the same: ${warning}`),
    ...deprecated.map((remark) => `Deprecated: ${remark}`),
  ];
}

/**
 * Reads a variable's name as somebody wrote it, with or without the prefix of the PUBLIC tier.
 *
 * @throws {ConfigurationError} If no PUBLIC variable can have it.
 */
export function publicName(key: string): string {
  const name = key.replace(/^REP_PUBLIC_/, "");
  const [, tier] = /^REP_(SENSITIVE|SERVER)_/i.exec(name) ?? [];
  const cannot = `Cannot use the name ${formatValue(key)}:`;
  if (tier !== undefined) {
    const reason = "everybody who can open the database could read the value; it belongs in the gateway's environment";
    refuse([`${cannot} ${tier.toUpperCase()} variables are not put into the store: ${reason}`]);
  }
  if (/^REP_GATEWAY_/i.test(name)) refuse([`${cannot} it is an option of the gateway; it belongs in its environment`]);
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    refuse([`${cannot} expected letters, digits and _, and no digit first`]);
  }
  if (name.length > MAX_NAME_BYTES) refuse([`${cannot} expected at most ${MAX_NAME_BYTES} bytes, got ${name.length}`]);
  return name;
}

/** The gateway's own check, on what is to be written and on what stands in its way. */
function checkSizesAndTiers(variables: readonly Variable[], environment: Environment): void {
  const ours = variables.map((variable) => [environmentName(variable), variable.value]);
  const inTheWay = variables.flatMap(({ name }) =>
    OTHER_TIERS.map((tier) => environmentName({ name, tier })).filter((other) => environment[other] !== undefined)
  );
  const others = inTheWay.map((name) => [name, ""]); // the name is enough
  buildSnapshot({ environment: Object.fromEntries([...others, ...ours]), strict: false });
}

const OTHER_TIERS: readonly Tier[] = ["sensitive", "server"];

/** What the manifest requires beside these variables may come from the gateway's environment: only these are checked. */
function checkManifest(variables: readonly Variable[], text: string): readonly string[] {
  const { manifest, issues } = parseCommandManifest(text);
  refuse(issues);
  const names = new Set(variables.map(({ name }) => name));
  const declared = [...manifest.variables].filter(([name]) => names.has(name));
  const ofThese: Manifest = { ...manifest, variables: new Map(declared) };
  const outcome = applyManifest(variables, ofThese);
  refuse(outcome.issues);
  return outcome.deprecated.map(({ name, message }) => message === undefined ? name : `${name}: ${message}`);
}

function inFull(name: string): string {
  return environmentName({ name, tier: "public" });
}

function refuse(issues: readonly string[]): void {
  if (issues.length > 0) throw new ConfigurationError(issues);
}
