import { publicHash } from "../../values/hash.ts";
import type { ApplyOptions, Issue } from "./apply_manifest.ts";
import type { Check } from "../../store/store.ts";
import {
  describeWarning,
  type GuardrailWarning,
  scanForSecrets,
} from "./guardrails.ts";
import type { Manifest } from "./manifest.ts";
import { describeKind } from "./quote.ts";
import { serviceLinkWarnings, withoutServiceLinks } from "./service_links.ts";
import { type Findings, suspiciousName } from "./finding.ts";
import { findSuspiciousValues } from "./suspicious_values.ts";
import {
  type Environment,
  environmentName,
  MAX_PUBLIC_BYTES,
  namesWithoutTier,
  type Tier,
  TIER_PREFIX,
  type Variable,
} from "./tiers.ts";
import { toUtf8 } from "../../values/utf8.ts";

/**
 * A complete, valid configuration. It is immutable: a reload replaces it as a whole.
 *
 * Five of its fields are easily confused. Processes compare `configurationHash`, which follows from what they were deployed
 * with. They publish what `publicHash` identifies, which also includes variables in the store. Two say when it was read:
 * each commit of events checks that the store still has the variables of `storedVersion`, and `rankAtRead` tells whether
 * a rollout has begun since. `newestWrite` is for `set` and for the log.
 */
export interface Snapshot extends Findings {
  /**
   * The hash of the PUBLIC values of the process's own sources, which it was deployed with. It identifies the
   * configuration in the rollout, so a new value is a rollout, even in a single process (`election.ts`). Variables in
   * the store do not count: all replicas of a deployment have the same hash, whether or not they read the newest write.
   */
  readonly configurationHash: string;
  /** The names of those PUBLIC values. */
  readonly configurationNames: ReadonlySet<string>;
  /** The hash of all PUBLIC values, including variables in the store. */
  readonly publicHash: string;
  /** The version of the variables in the store that it was built from; `undefined` if they could not be read. */
  readonly storedVersion: StoredEnvironment["version"] | undefined;
  /** The rank of the newest rollout before the process's own sources were read; `undefined` if the store failed. */
  readonly rankAtRead: number | undefined;
  /** The id of the newest write to a variable in the store that it contains; 0 if there is none. */
  readonly newestWrite: number;
  readonly public: ReadonlyMap<string, string>;
  readonly sensitive: ReadonlyMap<string, string>;
  /** The names of the SERVER variables. */
  readonly server: ReadonlySet<string>;
  /** Returns the value of a SERVER variable. It is a function so that printing a snapshot does not reveal values. */
  readonly serverValue: (name: string) => string | undefined;
  readonly describe: (name: string) => Description | undefined;
  /** The number of variables from each source. */
  readonly sources: Readonly<Record<string, number>>;
}

/** Where a variable comes from, and its type. */
interface Description {
  readonly source: string;
  readonly type: string;
}

/** A configuration without variables. */
export const EMPTY_SNAPSHOT: Snapshot = {
  configurationHash: "",
  configurationNames: new Set(),
  publicHash: "",
  storedVersion: undefined,
  rankAtRead: undefined,
  newestWrite: 0,
  public: new Map(),
  sensitive: new Map(),
  server: new Set(),
  serverValue: () => undefined,
  describe: () => undefined,
  sources: {},
  warnings: [],
  otherFindings: [],
};

/** Returns whether a variable is SENSITIVE or SERVER, so that nobody may get a PUBLIC value of it. */
export function isHidden(
  { sensitive, server }: Pick<Snapshot, "sensitive" | "server">,
  name: string,
): boolean {
  return sensitive.has(name) || server.has(name);
}

/** The variables in the store, in the form of an environment. */
export interface StoredEnvironment {
  readonly environment: Environment;
  /** The version of their head; `null` if no variable has ever been written. */
  readonly version: Check["version"];
  /** The id of the newest write; 0 if there has never been one. */
  readonly newestWrite: number;
}

/**
 * What a snapshot is built from, without the store. No limit of {@linkcode ApplyOptions} is optional: whoever builds a
 * snapshot decides about each.
 */
export interface SnapshotSources extends ApplyOptions {
  readonly environment: Environment;
  /** The parsed manifest. Its issues are issues of the configuration. */
  readonly manifest: Manifest | undefined;
  /** Returns the source of a variable in the environment. @default {nobody asks} */
  readonly sourceOf?: (environmentName: string) => string | undefined;
  /** Whether guardrail warnings are errors. */
  readonly strict: boolean;
  /** Whether values with quotes or white space around them are errors. */
  readonly rejectsSuspiciousValues: boolean;
  /** The names of PUBLIC variables without guardrail warnings. */
  readonly acceptPublic: readonly string[];
  /** The rank of the newest rollout when they were read. @default {unknown} */
  readonly rankAtRead?: number | undefined;
}

/** Input of {@linkcode buildSnapshot}. */
export interface SnapshotInput extends SnapshotSources {
  /** Overrides the environment. `undefined` if the store could not be read. */
  readonly stored: StoredEnvironment | undefined;
}

/** An invalid configuration. No part of it becomes active. */
export class ConfigurationError extends Error {
  /** The name of the class. */
  override name = "ConfigurationError";
  /** One sentence per issue. They contain values of PUBLIC variables only, and none that looks like a secret. */
  readonly issues: readonly string[];
  /** How many of the issues are guardrail warnings that strict mode turned into errors. */
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

/** The maximum size of a PUBLIC name. A key in Deno KV has at most 2,048 bytes, including the prefix. */
export const MAX_NAME_BYTES = 1_024;

/** A manifest that declares nothing. */
export const NO_MANIFEST: Manifest = {
  name: "no manifest",
  lines: new Map(),
  variables: new Map(),
  settings: {},
  issues: [],
};

/** The result of {@linkcode evaluate}. */
export type Evaluation = Awaited<ReturnType<typeof evaluate>>;

/** Validates a configuration, and returns everything that it finds, whether the configuration is valid or not. */
export async function evaluate(input: SnapshotInput) {
  const { strict, stored, manifest = NO_MANIFEST, acceptPublic } = input;
  const own = withoutServiceLinks(input.environment);
  const environment = { ...own, ...stored?.environment };
  const classified = classify(environment);
  const ignoredNames = namesWithoutTier(environment);
  const applied = await apply(classified.variables, input, ignoredNames);
  const { variables } = applied;
  const warnings = scanForSecrets(variables, manifest.variables)
    .filter(({ name }) => !acceptPublic.includes(name));
  const blocked = strict ? warnings.map(strictIssue) : [];
  const found = findSuspiciousValues(
    classified.variables,
    manifest.variables,
  );
  const [rejected, accepted] = input.rejectsSuspiciousValues
    ? [found, []]
    : [[], found];
  const issues: Issue[] = [
    ...classified.issues,
    ...applied.issues,
    ...sizeIssues(variables),
    ...blocked,
    ...rejected.map(({ name, detail }) => issueOf(name, detail)),
  ];
  return {
    variables,
    issues: issues.map((issue) => nameStored(issue, stored)),
    /** How many of the issues are guardrail warnings. */
    blocked: blocked.length,
    warnings,
    otherFindings: [
      ...serviceLinkWarnings(input.environment),
      ...ignoredNames.map((name) => suspiciousName(name, NO_TIER)),
      ...applied.findings,
      ...accepted,
    ].sort((a, b) => a.event.localeCompare(b.event)),
  };
}

/**
 * Validates a configuration and builds a snapshot of it.
 *
 * @throws {ConfigurationError} If there is any issue. The error lists all of them.
 */
export async function buildSnapshot(input: SnapshotInput): Promise<Snapshot> {
  const { stored, manifest = NO_MANIFEST } = input;
  const { variables, issues, blocked, ...findings } = await evaluate(input);
  if (issues.length > 0) {
    const texts = issues.map(({ text }) => text);
    throw new ConfigurationError(texts, { blocked });
  }
  const publicValues = valuesOf("public", variables);
  const serverValues = valuesOf("server", variables);
  const deployed = deployedValues(input.environment, manifest);
  const descriptions = describeAll(variables, input);
  return {
    configurationHash: await publicHash(deployed),
    configurationNames: new Set(deployed.keys()),
    publicHash: await publicHash(publicValues),
    storedVersion: stored?.version,
    rankAtRead: input.rankAtRead,
    newestWrite: stored?.newestWrite ?? 0,
    public: publicValues,
    sensitive: valuesOf("sensitive", variables),
    server: new Set(serverValues.keys()),
    serverValue: (name) => serverValues.get(name),
    describe: (name) => descriptions.get(name),
    sources: countSources(descriptions.values()),
    ...findings,
  };
}

function issueOf(variable: string, detail: string | undefined): Issue {
  return { variable, text: `Cannot use ${variable}: ${detail}` };
}

/** Says where a variable comes from that is in no file. */
function nameStored(
  issue: Issue,
  stored: StoredEnvironment | undefined,
): Issue {
  const { variable = "", text } = issue;
  if (!Object.hasOwn(stored?.environment ?? {}, variable)) return issue;
  const advice = `${variable} is in the store: set or unset it`;
  return { variable, text: `${text}; ${advice}` };
}

/**
 * Sorts the variables of an environment into tiers by their prefix, and strips the prefix (REP-RFC-0001 §3.2).
 * Variables without a tier's prefix are ignored. The issues show no values.
 */
export function classify(environment: Environment) {
  const variables: Variable[] = [];
  const issues: Issue[] = [];
  // A module in JavaScript may pass values of any type.
  const entries: [string, unknown][] = Object.entries(environment);
  for (const [key, value] of entries) {
    const [, prefix, name] = TIER_PREFIX.exec(key) ?? [];
    if (prefix === undefined || name === undefined) continue;
    if (typeof value !== "string") {
      const got = describeKind(value);
      issues.push(issueOf(key, `expected a string, got ${got}`));
      continue;
    }
    if (name === "") {
      issues.push(issueOf(key, "expected a name after the prefix"));
    }
    variables.push({ name, tier: prefix.toLowerCase() as Tier, value });
  }
  return { variables, issues: [...issues, ...collisionIssues(variables)] };
}

/** REP-RFC-0001 §3.2 rule 4: a name belongs to one tier. */
function collisionIssues(variables: readonly Variable[]): Issue[] {
  const byName = Map.groupBy(variables, ({ name }) => name);
  const collisions = [...byName.values()].filter(({ length }) => length > 1);
  return collisions.map((group) => {
    const keys = group.map(environmentName).sort(); // first the PUBLIC one, which may be in the store
    const names = keys.join(" and ");
    const text = `Cannot use ${names}: expected a name in one tier only`;
    return { variable: keys[0], text };
  });
}

/** Returns the values of a tier's variables by name. */
export function valuesOf(
  tier: Tier,
  variables: readonly Variable[],
): Map<string, string> {
  const selected = variables.filter((variable) => variable.tier === tier);
  return new Map(selected.map(({ name, value }) => [name, value]));
}

/** Applies a manifest. The code for that, with the evaluation of patterns, is loaded only if there is one. */
async function apply(
  variables: readonly Variable[],
  input: SnapshotInput,
  ignoredNames: readonly string[],
) {
  const { manifest } = input;
  if (manifest === undefined) return { variables, issues: [], findings: [] };
  const { applyManifest } = await import("./apply_manifest.ts");
  return await applyManifest(variables, manifest, ignoredNames, input);
}

/** Returns the PUBLIC values of the process's own sources, including those that the store overrides. */
function deployedValues(
  environment: Environment,
  manifest: Manifest,
): Map<string, string> {
  const values = new Map<string, string>();
  for (const [name, { tier, required, default: value }] of manifest.variables) {
    const isInjected = tier === "public" && !required; // by `applyManifest()`
    if (isInjected && value !== undefined) values.set(name, value);
  }
  const { variables } = classify(withoutServiceLinks(environment));
  return new Map([...values, ...valuesOf("public", variables)]);
}

/** Returns the source and the type of each variable by name. */
function describeAll(
  variables: readonly Variable[],
  { environment, stored, manifest, sourceOf }: SnapshotInput,
): Map<string, Description> {
  function sourceIn(key: string): string {
    if (stored?.environment[key] !== undefined) return "store";
    if (environment[key] === undefined) return "default in the manifest";
    return sourceOf?.(key) ?? "variables";
  }
  const descriptions = new Map<string, Description>();
  for (const variable of variables) {
    const { name } = variable;
    const type = manifest?.variables.get(name)?.type ?? "string";
    const source = sourceIn(environmentName(variable));
    descriptions.set(name, { source, type });
  }
  return descriptions;
}

function countSources(
  descriptions: Iterable<Description>,
): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { source } of descriptions) {
    counts[source] = (counts[source] ?? 0) + 1;
  }
  return counts;
}

const NO_TIER =
  "it is ignored: expected the prefix REP_PUBLIC_, REP_SENSITIVE_ or REP_SERVER_";

/** Counts the variables of each tier, including defaults (endpoint specification, Health report, rule 1). */
export function countVariables(snapshot: Snapshot): Record<Tier, number> {
  return {
    public: snapshot.public.size,
    sensitive: snapshot.sensitive.size,
    server: snapshot.server.size,
  };
}

/** Returns whether two snapshots have the same variables. */
export function hasSameVariables(a: Snapshot, b: Snapshot): boolean {
  return isEqualMap(a.public, b.public) &&
    isEqualMap(a.sensitive, b.sensitive) &&
    a.server.size === b.server.size &&
    [...a.server].every((name) => a.serverValue(name) === b.serverValue(name));
}

/** Returns whether two maps have the same entries, in any order. */
export function isEqualMap(
  a: ReadonlyMap<string, string>,
  b: ReadonlyMap<string, string>,
): boolean {
  return a.size === b.size &&
    [...a].every(([name, value]) => b.get(name) === value);
}

function strictIssue(warning: GuardrailWarning): Issue {
  const { name } = warning;
  const variable = environmentName({ name, tier: "public" });
  const reason = describeWarning(warning);
  return {
    variable,
    text: `Cannot publish ${variable} in strict mode: ${reason}`,
  };
}

function sizeIssues(variables: readonly Variable[]): Issue[] {
  const issues: Issue[] = [];
  for (const [name, value] of valuesOf("public", variables)) {
    const variable = environmentName({ name, tier: "public" });
    const subject = `Cannot publish ${variable.slice(0, 100)}`;
    const reject = (expected: string) =>
      issues.push({ variable, text: `${subject}: expected ${expected}` });
    const nameBytes = toUtf8(name).length;
    const valueBytes = toUtf8(value).length;
    if (nameBytes > MAX_NAME_BYTES) {
      reject(`a name of at most ${MAX_NAME_BYTES} bytes, got ${nameBytes}`);
    }
    if (valueBytes > MAX_PUBLIC_BYTES) {
      reject(`a value of at most ${MAX_PUBLIC_BYTES} bytes, got ${valueBytes}`);
    }
    if (!value.isWellFormed()) {
      reject("Unicode text, got an unpaired surrogate");
    }
  }
  return issues;
}
