import { publicHash } from "../values/hash.ts";
import type {
  AppliedManifest,
  Deprecation,
  ManifestInput,
} from "./apply_manifest.ts";
import { classify, type Environment } from "./classify.ts";
import { type GuardrailWarning, scanForSecrets } from "./guardrails.ts";
import type { Manifest } from "./manifest.ts";
import type { StoredEnvironment } from "./stored_variables.ts";
import {
  findSuspiciousNames,
  type SuspiciousName,
} from "./suspicious_names.ts";
import { environmentName, type Tier, TIERS, type Variable } from "./tier.ts";

/** A complete, valid configuration. It is immutable: a reload replaces it as a whole. */
export interface Snapshot {
  /**
   * The hash of the PUBLIC values of the process's own sources: what it was deployed with. Variables in the store are no
   * part of it, so that all replicas of a deployment have the same one, whichever of them has read the newest write.
   */
  readonly deployment: string;
  /** The names of those PUBLIC values. */
  readonly deployedNames: ReadonlySet<string>;
  /** The hash of the PUBLIC values that result, those of the store included. */
  readonly state: string;
  /** The version of the variables in the store that it was built from; `undefined` if they have not been read. */
  readonly storedVersion: StoredEnvironment["version"] | undefined;
  readonly public: ReadonlyMap<string, string>;
  readonly sensitive: ReadonlyMap<string, string>;
  /** The names of the SERVER variables. */
  readonly server: ReadonlySet<string>;
  /** Returns the value of a SERVER variable: a function, so that nothing that prints a snapshot reveals it. */
  readonly serverValue: (name: string) => string | undefined;
  /** Returns where a variable comes from, and its type. */
  readonly describe: (
    name: string,
  ) => { source: string; type: string } | undefined;
  /** The number of variables from each source. */
  readonly sources: Readonly<Record<string, number>>;
  readonly warnings: readonly GuardrailWarning[];
  readonly deprecated: readonly Deprecation[];
  readonly suspicious: readonly SuspiciousName[];
}

/** A configuration without variables. */
export const EMPTY_SNAPSHOT: Snapshot = {
  deployment: "",
  deployedNames: new Set(),
  state: "",
  storedVersion: undefined,
  public: new Map(),
  sensitive: new Map(),
  server: new Set(),
  serverValue: () => undefined,
  describe: () => undefined,
  sources: {},
  warnings: [],
  deprecated: [],
  suspicious: [],
};

/** Input of {@linkcode buildSnapshot}. */
export interface SnapshotInput extends ManifestInput {
  readonly environment: Environment;
  /** Overrides the environment. @default {no variables, which have not been read} */
  readonly stored?: StoredEnvironment | undefined;
  /** Names the source of a variable in the environment. */
  readonly sourceOf?:
    | ((environmentName: string) => string | undefined)
    | undefined;
  /** Whether guardrail warnings are errors. */
  readonly strict: boolean;
}

/** An invalid configuration. No part of it becomes active. */
export class ConfigurationError extends Error {
  /** The name of the class. */
  override name = "ConfigurationError";
  /** One sentence per issue. Only values of PUBLIC variables are named, and none that looks like a secret. */
  readonly issues: readonly string[];
  /** How many of the issues are guardrail warnings that are errors because of strict mode. */
  readonly blocked: number;

  /** Creates an error whose message lists the issues, one per line. */
  constructor(
    issues: readonly string[],
    { blocked = 0, ...options }: { blocked?: number } & ErrorOptions = {},
  ) {
    super(issues.join("\n"), options);
    this.issues = issues;
    this.blocked = blocked;
  }
}

/**
 * The maximum size of a PUBLIC value, in bytes of UTF-8. The event log stores each value for clients that reconnect,
 * and a Deno KV value holds 64 KiB, including the name and the encoding.
 */
export const MAX_PUBLIC_BYTES = 64_000;
/** The maximum size of a PUBLIC name. A Deno KV key holds 2,048 bytes, including the prefix. */
export const MAX_NAME_BYTES = 1_024;

/**
 * Validates a configuration and builds a snapshot of it.
 *
 * @throws {ConfigurationError} If there is any issue. The error lists all of them.
 */
export async function buildSnapshot(input: SnapshotInput): Promise<Snapshot> {
  const { strict, sourceOf, stored } = input;
  const environment = { ...input.environment, ...stored?.environment };
  const classified = classify(environment);
  const applied = await applyManifest(classified.variables, input);
  const { manifest, variables, deprecated } = applied;
  const warnings = scanForSecrets(variables);
  const blocked = strict ? warnings.map(strictIssue) : [];
  const issues = [
    ...classified.issues,
    ...applied.issues,
    ...sizeIssues(variables),
    ...blocked,
  ];
  if (issues.length > 0) {
    throw new ConfigurationError(issues, { blocked: blocked.length });
  }
  // Not later: the next reload may change what a source says, and be rejected.
  const descriptions = new Map(variables.map((variable) => {
    const name = environmentName(variable);
    const source = environment[name] === undefined
      ? "default in the manifest"
      : stored?.environment[name] !== undefined
      ? "store"
      : sourceOf?.(name) ?? "variables";
    return [variable.name, {
      source,
      type: manifest.variables.get(variable.name)?.type ?? "string",
    }];
  }));
  const server = selectTier(variables, "server");
  const publicValues = selectTier(variables, "public");
  const deployed = deployedValues(input.environment, manifest);
  return {
    deployment: await publicHash(deployed),
    deployedNames: new Set(deployed.keys()),
    state: await publicHash(publicValues),
    storedVersion: stored?.version,
    public: publicValues,
    sensitive: selectTier(variables, "sensitive"),
    server: new Set(server.keys()),
    serverValue: (name) => server.get(name),
    describe: (name) => descriptions.get(name),
    sources: countBy([...descriptions.values()], ({ source }) => source),
    warnings,
    deprecated,
    suspicious: findSuspiciousNames(environment, manifest),
  };
}

/** Returns the PUBLIC values of a process's own sources, also of variables that the store overrides. */
function deployedValues(
  environment: Environment,
  manifest: Manifest,
): Map<string, string> {
  const values = new Map<string, string>();
  for (const [name, declaration] of manifest.variables) {
    const value = declaration.default;
    if (declaration.tier === "public" && value !== undefined) {
      values.set(name, value);
    }
  }
  for (const { name, tier, value } of classify(environment).variables) {
    if (tier === "public") values.set(name, value);
  }
  return values;
}

/** The YAML parser is loaded only if there is a manifest. */
async function applyManifest(
  variables: readonly Variable[],
  { manifest, ...input }: ManifestInput,
): Promise<AppliedManifest> {
  const noManifest = {
    name: "no manifest",
    variables: new Map(),
    settings: {},
  };
  if (manifest === undefined) {
    return { manifest: noManifest, variables, issues: [], deprecated: [] };
  }
  const { applyManifestText } = await import("./apply_manifest.ts");
  return await applyManifestText(variables, { ...input, manifest });
}

function countBy<T>(
  items: readonly T[],
  keyOf: (item: T) => string,
): Record<string, number> {
  return Object.fromEntries(
    [...Map.groupBy(items, keyOf)].map(([key, { length }]) => [key, length]),
  );
}

function selectTier(
  variables: readonly Variable[],
  tier: Tier,
): Map<string, string> {
  const selected = variables.filter((variable) => variable.tier === tier);
  return new Map(selected.map(({ name, value }) => [name, value]));
}

/**
 * Counts the variables of each tier, defaults of the manifest included (endpoint specification, Health report, rule 1).
 */
export function countVariables(snapshot: Snapshot): Record<Tier, number> {
  return Object.fromEntries(
    TIERS.map((tier) => [tier, snapshot[tier].size]),
  ) as Record<Tier, number>;
}

/** Returns whether two snapshots have the same variables. Values of SERVER variables are not compared. */
export function hasSameVariables(a: Snapshot, b: Snapshot): boolean {
  return isEqualMap(a.public, b.public) &&
    isEqualMap(a.sensitive, b.sensitive) &&
    a.server.size === b.server.size && a.server.isSubsetOf(b.server);
}

/** Returns whether two maps have the same entries, in any order. */
export function isEqualMap(
  a: ReadonlyMap<string, string>,
  b: ReadonlyMap<string, string>,
): boolean {
  return a.size === b.size &&
    [...a].every(([name, value]) => b.get(name) === value);
}

function strictIssue({ name, detail }: GuardrailWarning): string {
  return `Cannot publish ${
    environmentName({ name, tier: "public" })
  } in strict mode: ${detail}`;
}

function sizeIssues(variables: readonly Variable[]): string[] {
  return variables.filter(({ tier }) => tier === "public").flatMap(
    (variable) => {
      const name = environmentName(variable);
      return [
        ...sizeIssue(
          `the name ${name.slice(0, 60)}…`,
          variable.name,
          MAX_NAME_BYTES,
        ),
        ...sizeIssue(`the value of ${name}`, variable.value, MAX_PUBLIC_BYTES),
        ...(variable.value.isWellFormed() ? [] : [
          `Cannot publish ${name}: expected Unicode text, got an unpaired surrogate`,
        ]),
      ];
    },
  );
}

const encoder = new TextEncoder();

function sizeIssue(subject: string, text: string, maxBytes: number): string[] {
  if (3 * text.length <= maxBytes) return []; // UTF-8 has at most 3 bytes for each unit of UTF-16
  const bytes = encoder.encode(text).length;
  return bytes > maxBytes
    ? [
      `Cannot publish ${subject}: expected at most ${maxBytes} bytes, got ${bytes}`,
    ]
    : [];
}
