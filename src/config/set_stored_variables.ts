import { type Clock, systemClock } from "../values/clock.ts";
import { checkApp, storeOfApp } from "../store/app_store.ts";
import type { Store } from "../store/store.ts";
import type { Environment } from "./classify.ts";
import { readEnvironment } from "./environment.ts";
import { formatValue } from "./format_value.ts";
import {
  buildSnapshot,
  ConfigurationError,
  MAX_NAME_BYTES,
} from "./snapshot.ts";
import { type StoredWrite, writeVariables } from "./stored_variables.ts";
import { environmentName, type Tier } from "./tier.ts";

/** What variables for the store are validated with. */
export interface ValidationOptions {
  /** The text of the manifest that declares them. @default {none} */
  manifest?: string | undefined;
  /** The path of the manifest, for messages. @default {none} */
  manifestPath?: string | undefined;
  /** A name that is SENSITIVE or SERVER there cannot be PUBLIC. @default {the environment of the process} */
  environment?: Environment;
  /** Whether values are accepted that look like secrets. @default {false} */
  force?: boolean;
}

/** Options of {@linkcode setStoredVariables}. */
export interface SetStoredVariablesOptions extends ValidationOptions {
  /** The id that the variable must have for the write to take place; 0 if it must not exist. @default {any} */
  ifId?: number | undefined;
  /** The name of the gateways' app. @default {none} */
  app?: string | undefined;
  /** The time of the writes. @default {the time of the system} */
  clock?: Clock;
  /** Returns a number from 0 to below 1, for pauses between attempts. @default {Math.random} */
  random?: () => number;
}

/**
 * Sets PUBLIC variables in the store of gateways, as the command `set` does, or removes them. The gateways publish the
 * change within a second or two.
 *
 * @param values Values by name, with or without `REP_PUBLIC_`; `undefined` for a variable to be removed.
 * @returns The writes, in ascending order of their ids; none for the removal of a variable that does not exist.
 * @throws {RangeError} If no app can have the name.
 * @throws {ConfigurationError} If a variable is rejected; the issues do not include values that look like secrets.
 * @throws {ConflictError} If the variable does not have the id `ifId`.
 * @throws {StoreUnavailableError} If the store is unavailable.
 */
export async function setStoredVariables(
  store: Store,
  values: Readonly<Record<string, string | undefined>>,
  { app, ifId, clock = systemClock, random = Math.random, ...options }:
    SetStoredVariablesOptions = {},
): Promise<readonly StoredWrite[]> {
  const writes = Object.entries(values).map(([name, value]) =>
    [publicName(name), value] as const
  );
  await validateAssignments(
    new Map(
      writes.filter(([, value]) => value !== undefined) as [string, string][],
    ),
    options,
  );
  const ofApp = storeOfApp(store, checkApp(app));
  return await writeVariables(ofApp, new Map(writes), { ifId, clock, random });
}

/**
 * Validates PUBLIC variables before they are written to the store, by building a snapshot as the gateway would. Others
 * that the manifest requires may be set in the environment of the gateway.
 *
 * @returns Warnings.
 * @throws {ConfigurationError} If a variable is rejected. Its issues do not include values that look like secrets.
 */
export async function validateAssignments(
  values: ReadonlyMap<string, string>,
  {
    manifest,
    manifestPath,
    environment: own = readEnvironment(),
    force = false,
  }: ValidationOptions,
): Promise<string[]> {
  const environment = environmentOf(values, own);
  const tiers = { requiredTiers: [], loadPatternLibrary: undefined } as const;
  const snapshot = await buildSnapshot({
    environment,
    manifest,
    manifestPath,
    strict: false,
    ...tiers,
  });
  const secrets = snapshot.warnings.filter(({ name }) => values.has(name))
    .map(({ name, detail }) => `${publicVariable(name)}: ${detail}`);
  if (!force && secrets.length > 0) {
    const advice = "anyone could read it; use force to set it anyway";
    throw new ConfigurationError(
      secrets.map((secret) => `Cannot set ${secret}; ${advice}`),
    );
  }
  return [
    ...secrets.map((secret) => `Set despite the warning: ${secret}`),
    ...snapshot.deprecated.map(({ name, message }) =>
      `Deprecated: ${name}${message === undefined ? "" : `: ${message}`}`
    ),
  ];
}

/** Returns the variables, and those that they are in conflict with: one of another tier cannot be PUBLIC. */
function environmentOf(
  values: ReadonlyMap<string, string>,
  own: Environment,
): Environment {
  const others = [...values.keys()].flatMap((name) =>
    OTHER_TIERS.map((tier) => environmentName({ name, tier }))
  );
  const conflicting = others.filter((name) => own[name] !== undefined).map((
    name,
  ) => [name, ""]); // no value is shown
  const assigned = [...values].map((
    [name, value],
  ) => [publicVariable(name), value]);
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
  if (issue !== undefined) {
    throw new ConfigurationError([
      `Cannot use the name ${formatValue(key)}: ${issue}`,
    ]);
  }
  return name;
}

function nameIssue(name: string): string | undefined {
  const [, tier] = /^REP_(SENSITIVE|SERVER)_/i.exec(name) ?? [];
  if (tier !== undefined) {
    const reason =
      "anyone with access to the database could read the value; set it in the environment of the gateway";
    return `${tier.toUpperCase()} variables cannot be in the store: ${reason}`;
  }
  if (/^REP_GATEWAY_/i.test(name)) {
    return "it is an option of the gateway; set it in the environment of the gateway";
  }
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    return "expected letters, digits and _, not beginning with a digit";
  }
  return name.length > MAX_NAME_BYTES
    ? `expected at most ${MAX_NAME_BYTES} bytes, got ${name.length}`
    : undefined;
}

function publicVariable(name: string): string {
  return environmentName({ name, tier: "public" });
}
