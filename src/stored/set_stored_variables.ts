import { checkApp, storeOfApp } from "../core/store/app_store.ts";
import type { Store } from "../core/store/store.ts";
import { type Clock, systemClock } from "../core/values/clock.ts";
import { requireRuntime } from "../core/values/runtime.ts";
import { readEnvironment } from "../files/read_environment.ts";
import type { Issue } from "../core/config/variables/apply_manifest.ts";
import type { Manifest } from "../core/config/variables/manifest.ts";
import { formatValue } from "../core/config/variables/quote.ts";
import {
  buildSnapshot,
  ConfigurationError,
  evaluate,
  MAX_NAME_BYTES,
  type SnapshotInput,
} from "../core/config/variables/snapshot.ts";
import {
  DEPRECATED,
  SUSPICIOUS_NAME,
} from "../core/config/variables/finding.ts";
import { withoutServiceLinks } from "../core/config/variables/service_links.ts";
import {
  type Environment,
  environmentName,
} from "../core/config/variables/tiers.ts";
import type { StoredWrite } from "../core/config/stored/stored_variables.ts";
import { publicVariable, writeVariables } from "./write_variables.ts";
import { checkCause } from "./write_cause.ts";

/** Options of {@linkcode setStoredVariables}. */
export interface SetStoredVariablesOptions {
  /** The text of the manifest that declares the variables. @default {none} */
  manifest?: string | undefined;
  /** The path of the manifest, for messages. @default {none} */
  manifestPath?: string | undefined;
  /** Names that are SENSITIVE or SERVER here are rejected. @default {the environment of the process} */
  environment?: Environment;
  /** Whether to accept values that look like secrets, or have quotes or white space around them. @default {false} */
  force?: boolean;
  /** The id that the variable must have for the write to take place; 0 if it must not exist. @default {any} */
  ifId?: number | undefined;
  /** The name of the gateways' app. @default {none} */
  app?: string | undefined;
  /** Who writes, for the history: a claim of up to 128 characters, and no proof. @default {nobody} */
  by?: string | undefined;
  /** The reason, in up to 512 characters. @default {none} */
  why?: string | undefined;
  /** The time of the writes. @default {the time of the system} */
  clock?: Clock;
  /** Returns a number from 0 to below 1, for pauses between attempts. @default {Math.random} */
  random?: () => number;
}

/**
 * Sets PUBLIC variables in the store of gateways, as the command `set` does, or removes them. It does not wait until the
 * gateways publish the change, which takes a second or two.
 *
 * @param values Values by name, with or without `REP_PUBLIC_`; `undefined` for a variable to be removed.
 * @returns The writes, in ascending order of their ids; none for the removal of a variable that does not exist.
 * @throws {RangeError} If `app`, `by` or `why` is invalid.
 * @throws {ConfigurationError} If a variable is rejected; the issues do not include values that look like secrets.
 * @throws {ConflictError} If the variable does not have the id `ifId`.
 * @throws {StoreUnavailableError} If the store is unavailable. A part may have been written; repeating all of it is safe.
 */
export async function setStoredVariables(
  store: Store,
  values: Readonly<Record<string, string | undefined>>,
  options: SetStoredVariablesOptions = {},
): Promise<readonly StoredWrite[]> {
  requireRuntime();
  const cause = { command: "module", by: options.by, why: options.why };
  checkCause(cause);
  const writes = new Map<string, string | undefined>();
  for (const [key, value] of Object.entries(values)) {
    writes.set(publicName(key), value);
  }
  let manifest: Manifest | undefined;
  if (options.manifest !== undefined) {
    const module = await import("../core/config/variables/manifest.ts"); // with the YAML parser
    const path = options.manifestPath;
    manifest = module.parseManifest(options.manifest, { path });
  }
  await validateAssignments(writes, {
    manifest,
    environment: options.environment ?? readEnvironment(),
    strict: false,
    acceptPublic: [],
    force: options.force ?? false,
  });
  const ownStore = storeOfApp(store, checkApp(options.app));
  return await writeVariables(ownStore, writes, {
    ifId: options.ifId,
    cause,
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
  });
}

/** What variables are validated against. */
export interface Validation {
  readonly manifest: Manifest | undefined;
  /** Names that are SENSITIVE or SERVER here are rejected. */
  readonly environment: Environment;
  /** Whether gateways reject values that look like secrets: nobody can force them then. */
  readonly strict: boolean;
  /** The names of variables whose values may look like secrets. */
  readonly acceptPublic: readonly string[];
  /** Whether to accept values that look like secrets. */
  readonly force: boolean;
}

/**
 * Validates PUBLIC variables before they are written to the store, by building a snapshot as the gateway would. Other
 * variables that the manifest requires may be missing, since they may be set in the environment of the gateway.
 *
 * @param values Values by name; `undefined` for a variable to be removed, which is always valid.
 * @returns Warnings.
 * @throws {ConfigurationError} If a variable is rejected. Its issues do not include values that look like secrets.
 */
export async function validateAssignments(
  values: ReadonlyMap<string, string | undefined>,
  validation: Validation,
): Promise<string[]> {
  const { force } = validation;
  const snapshot = await buildSnapshot(inputOf(values, validation));
  const isSet = (name: string) => values.get(name) !== undefined;
  const secrets = snapshot.warnings.filter(({ name }) => isSet(name))
    .map(({ name, detail }) => `${publicVariable(name)}: ${detail}`);
  if (!force && secrets.length > 0) {
    const advice = "anyone could read it; use force to set it anyway";
    throw new ConfigurationError(
      secrets.map((secret) => `Cannot set ${secret}; ${advice}`),
    );
  }
  const warnings = secrets.map((secret) =>
    `Set despite the warning: ${secret}`
  );
  for (const { event, name, detail } of snapshot.otherFindings) {
    if (event === SUSPICIOUS_NAME) warnings.push(`${name}: ${detail}`);
    if (event !== DEPRECATED) continue;
    const end = detail === undefined ? "" : `: ${detail}`;
    warnings.push(`Deprecated: ${name}${end}`);
  }
  return warnings;
}

/** Returns why gateways reject variables that are in the store. */
export async function findIssues(
  values: ReadonlyMap<string, string>,
  validation: Validation,
): Promise<readonly Issue[]> {
  const { issues } = await evaluate(inputOf(values, validation));
  return issues;
}

function inputOf(
  values: ReadonlyMap<string, string | undefined>,
  { manifest, environment, strict, acceptPublic, force }: Validation,
): SnapshotInput {
  return {
    environment: environmentOf(values, environment),
    stored: undefined,
    manifest,
    strict,
    rejectsSuspiciousValues: !force,
    acceptPublic,
    requiredTiers: [],
  };
}

/** Returns the variables in the form of an environment, with those of other tiers that have the same names. */
function environmentOf(
  values: ReadonlyMap<string, string | undefined>,
  others: Environment,
): Environment {
  const own = withoutServiceLinks(others);
  const environment: Record<string, string> = {};
  for (const [name, value] of values) {
    if (value === undefined) continue;
    for (const tier of ["sensitive", "server"] as const) {
      const other = environmentName({ name, tier });
      if (own[other] !== undefined) environment[other] = ""; // so that no message can show the value
    }
    environment[publicVariable(name)] = value;
  }
  return environment;
}

/**
 * Parses the name of a PUBLIC variable, with or without its prefix.
 *
 * @returns The name without the prefix.
 * @throws {ConfigurationError} If the name is invalid.
 */
export function publicName(key: string): string {
  const name = key.replace(/^REP_PUBLIC_/, "");
  const issue = nameIssue(name);
  if (issue === undefined) return name;
  const shown = formatValue(key);
  throw new ConfigurationError([`Cannot use the name ${shown}: ${issue}`]);
}

function nameIssue(name: string): string | undefined {
  if (/^REP_(SENSITIVE|SERVER|GATEWAY)_/i.test(name)) {
    return "only PUBLIC variables can be in the store, since anyone with access to the database can read them; set it in the environment of the gateway";
  }
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    return "expected letters, digits and _, not beginning with a digit";
  }
  return name.length > MAX_NAME_BYTES
    ? `expected at most ${MAX_NAME_BYTES} bytes, got ${name.length}`
    : undefined;
}
