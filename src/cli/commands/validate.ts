import { applyManifest } from "../../config/variables/apply_manifest.ts";
import {
  classify,
  environmentName,
  type Tier,
  TIERS,
  type Variable,
} from "../../config/variables/tiers.ts";
import { scanForSecrets } from "../../config/variables/guardrails.ts";
import type { Manifest } from "../../config/variables/manifest.ts";
import { buildSnapshot, NO_MANIFEST } from "../../config/variables/snapshot.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_line.ts";
import { type CommandSources, orIssues, readSources } from "./read_sources.ts";
import { printTable, terminalJson } from "./table.ts";

/** A variable with the value that a gateway would use. */
interface EffectiveVariable {
  readonly name: string;
  readonly tier: Tier;
  /** Where it is set; `null` if it is not. */
  readonly source: string | null;
  /** `null` if it is not set, or hidden. */
  readonly value: string | null;
  /** Why the value is not printed. */
  readonly hidden?: string;
}

/** What {@linkcode validate} found. */
interface Report {
  readonly issues: readonly string[];
  readonly warnings: readonly string[];
  readonly variables: readonly EffectiveVariable[];
}

/** Checks everything that a gateway would check at startup, and prints the effective values. */
export async function validate(
  line: CommandArguments,
  io: CommandIo,
): Promise<number> {
  const report = await check(await readSources(line, io.environment));
  const isValid = report.issues.length === 0;
  if (line.json) io.print(terminalJson({ valid: isValid, ...report }, 2));
  else printReport(report, io);
  return isValid ? 0 : 1;
}

async function check(sources: CommandSources): Promise<Report> {
  const set = classify(sources.environment).variables;
  // A step of CI may check the manifest where it is not deployed.
  const isManifestAlone = sources.manifest !== NO_MANIFEST && set.length === 0;
  const requiredTiers = isManifestAlone ? [] : TIERS;
  const issues = [...sources.issues];
  await orIssues(
    () =>
      buildSnapshot({
        ...sources,
        requiredTiers,
        loadPatternLibrary: undefined,
      }),
    issues,
  );
  const { variables } = await applyManifest(set, sources.manifest, {
    requiredTiers: [],
    loadPatternLibrary: undefined,
  });
  const secrets = scanForSecrets(variables);
  return {
    issues: [...new Set(issues)], // both the command and the gateway check the manifest
    warnings: [
      ...sources.warnings,
      ...(isManifestAlone
        ? ["no variable is set: only the manifest is checked"]
        : []),
      ...secrets.filter(() => !sources.strict).map(({ name, detail }) =>
        `${environmentName({ name, tier: "public" })}: ${detail}`
      ),
      ...deprecationWarnings(set, sources.manifest),
    ],
    variables: describeAll(
      variables,
      new Set(secrets.map(({ name }) => name)),
      sources,
    ),
  };
}

function deprecationWarnings(
  variables: readonly Variable[],
  { variables: declarations }: Manifest,
): string[] {
  return variables.filter(({ name }) => declarations.get(name)?.deprecated).map(
    (variable) => {
      const message = declarations.get(variable.name)?.deprecatedMessage;
      return `${environmentName(variable)} is deprecated${
        message === undefined ? "" : `: ${message}`
      }`;
    },
  );
}

/** Describes all variables that are set or declared, in the order of their names. */
function describeAll(
  variables: readonly Variable[],
  secrets: ReadonlySet<string>,
  { setIn, manifest }: CommandSources,
): EffectiveVariable[] {
  const described = variables.map((variable) => {
    const source = setIn.get(environmentName(variable)) ?? "default";
    return describe(variable, source, secrets.has(variable.name));
  });
  const names = new Set(variables.map(({ name }) => name));
  const unset = [...manifest.variables].filter(([name]) => !names.has(name));
  return [
    ...described,
    ...unset.map(([name, { tier }]) => ({
      name,
      tier,
      source: null,
      value: null,
    })),
  ]
    .sort((a, b) => a.name < b.name ? -1 : 1);
}

function describe(
  { name, tier, value }: Variable,
  source: string,
  looksSecret: boolean,
): EffectiveVariable {
  if (tier !== "public") {
    return { name, tier, source, value: null, hidden: tier };
  }
  return looksSecret
    ? { name, tier, source, value: null, hidden: LOOKS_SECRET }
    : { name, tier, source, value };
}

const LOOKS_SECRET = "looks like a secret";

function printReport(
  { issues, warnings, variables }: Report,
  io: CommandIo,
): void {
  const rows = variables.map((variable) => {
    const { name, tier, source, value, hidden } = variable;
    return [
      name,
      tier,
      source ?? "(not set)",
      hidden === undefined ? value ?? "" : `(${describeHidden(variable)})`,
    ];
  });
  if (rows.length > 0) {
    printTable([["NAME", "TIER", "SOURCE", "VALUE"], ...rows], 3, io);
  }
  for (const issue of issues) io.printError(issue);
  for (const warning of warnings) io.printError(`Warning: ${warning}`);
  const [count, noun] = [
    issues.length,
    issues.length === 1 ? "issue" : "issues",
  ];
  io.printError(
    count === 0
      ? `Valid: ${variables.length} variables`
      : `Invalid: ${count} ${noun}`,
  );
}

function describeHidden({ hidden, tier }: EffectiveVariable): string {
  return hidden === tier ? "hidden" : `hidden: ${hidden}`;
}
