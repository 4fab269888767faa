import { applyManifest, type Deprecation } from "./apply_manifest.ts";
import { classify, type Environment } from "./classify.ts";
import { type GuardrailWarning, scanForSecrets } from "./guardrails.ts";
import { type Manifest, parseManifest } from "./manifest.ts";
import { environmentName, type Tier, TIERS, type Variable } from "./tier.ts";

/** The configuration at one moment, whole and checked. It is never changed, only replaced. */
export interface Snapshot {
  readonly public: ReadonlyMap<string, string>;
  readonly sensitive: ReadonlyMap<string, string>;
  /** Names only: nothing in the gateway needs a SERVER variable's value, so none is kept. */
  readonly server: ReadonlySet<string>;
  readonly warnings: readonly GuardrailWarning[];
  readonly deprecated: readonly Deprecation[];
}

/** A configuration without variables. */
export const EMPTY_SNAPSHOT: Snapshot = {
  public: new Map(),
  sensitive: new Map(),
  server: new Set(),
  warnings: [],
  deprecated: [],
};

/** What a snapshot is made from. */
export interface SnapshotInput {
  readonly environment: Environment;
  /** The text of the manifest. */
  readonly manifest?: string | undefined;
  /** Whether a guardrail's warning refuses the snapshot. */
  readonly strict: boolean;
}

/** A configuration that cannot be used. Nothing of it is. */
export class ConfigurationError extends Error {
  /** What an error of this kind is called. */
  override name = "ConfigurationError";
  /** One sentence for each thing that is wrong; values of SENSITIVE and SERVER variables are never in them. */
  readonly issues: readonly string[];
  /** How many of the issues are guardrail warnings that strict mode made into issues. */
  readonly blocked: number;

  /** Makes the error of a configuration with these issues. */
  constructor(issues: readonly string[], { blocked = 0, ...options }: { blocked?: number } & ErrorOptions = {}) {
    super(issues.join("\n"), options);
    this.issues = issues;
    this.blocked = blocked;
  }
}

/**
 * The largest PUBLIC value, in bytes of UTF-8. Deno KV takes 64 KiB with the name and the framing; a larger value could
 * not be kept for those who missed it.
 */
export const MAX_PUBLIC_BYTES = 64_000;
/** A Deno KV key takes 2,048 bytes; this leaves room for what stands before the name. */
export const MAX_NAME_BYTES = 1_024;

const EMPTY: Manifest = { variables: new Map(), settings: {} };

/**
 * Makes a snapshot of what the sources gave.
 *
 * @throws {ConfigurationError} If anything is wrong with it; all issues are in the error.
 */
export function buildSnapshot({ environment, manifest: text, strict }: SnapshotInput): Snapshot {
  const classified = classify(environment);
  const { manifest, issues: manifestIssues } = text === undefined
    ? { manifest: EMPTY, issues: [] }
    : parseManifest(text);
  const { variables, issues: valueIssues, deprecated } = applyManifest(classified.variables, manifest);
  const warnings = scanForSecrets(variables);
  const blocked = strict ? warnings.map(blockedBy) : [];
  const issues = [...classified.issues, ...manifestIssues, ...valueIssues, ...sizeIssues(variables), ...blocked];
  if (issues.length > 0) throw new ConfigurationError(issues, { blocked: blocked.length });
  const server = new Set(tierOf(variables, "server").keys());
  return {
    public: tierOf(variables, "public"),
    sensitive: tierOf(variables, "sensitive"),
    server,
    warnings,
    deprecated,
  };
}

function tierOf(variables: readonly Variable[], tier: Tier): Map<string, string> {
  const ofTier = variables.filter((variable) => variable.tier === tier);
  return new Map(ofTier.map(({ name, value }) => [name, value]));
}

/** How many variables each tier has, defaults included (spec, Health report, rule 1). */
export function countVariables(snapshot: Snapshot): Record<Tier, number> {
  return Object.fromEntries(TIERS.map((tier) => [tier, snapshot[tier].size])) as Record<Tier, number>;
}

/** Whether two snapshots hold the same variables. */
export function isSame(a: Snapshot, b: Snapshot): boolean {
  return isSameMap(a.public, b.public) && isSameMap(a.sensitive, b.sensitive) &&
    a.server.size === b.server.size && a.server.isSubsetOf(b.server);
}

function isSameMap(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  return a.size === b.size && [...a].every(([name, value]) => b.get(name) === value);
}

function blockedBy({ name, detail }: GuardrailWarning): string {
  return `Cannot publish ${environmentName({ name, tier: "public" })} in strict mode: ${detail}`;
}

function sizeIssues(variables: readonly Variable[]): string[] {
  return variables.filter(({ tier }) => tier === "public").flatMap((variable) => {
    const name = environmentName(variable);
    return [
      ...tooLong(`the name ${name.slice(0, 60)}…`, variable.name, MAX_NAME_BYTES),
      ...tooLong(`the value of ${name}`, variable.value, MAX_PUBLIC_BYTES),
      ...(variable.value.isWellFormed() ? [] : [`Cannot publish ${name}: expected Unicode text, got half a character`]),
    ];
  });
}

const encoder = new TextEncoder();

function tooLong(what: string, text: string, most: number): string[] {
  const bytes = encoder.encode(text).length;
  return bytes > most ? [`Cannot publish ${what}: expected at most ${most} bytes, got ${bytes}`] : [];
}
