import type { LogFields } from "../observe/log.ts";
import { describeWarning } from "./variables/guardrails.ts";
import type { Manifest } from "./variables/manifest.ts";
import { EMPTY_VALUE, type Snapshot } from "./variables/snapshot.ts";
import { environmentName, isRepName } from "./variables/tiers.ts";

/** What is found in variables, besides issues. */
export type Findings = Pick<
  Snapshot,
  "warnings" | "deprecated" | "empty" | "suspicious"
>;

/** A warning about a variable. */
export interface Finding {
  /** The event of the log. */
  readonly event: string;
  /** The name of the variable, in some events with its prefix. */
  readonly name: string;
  readonly detail: string | undefined;
  /** Why its value looks like a secret; `undefined` if it does not. */
  readonly detection?: string;
}

/** Returns all findings, in the order in which they are reported. */
export function findingsOf(
  { warnings, deprecated, empty, suspicious }: Findings,
): Finding[] {
  const findings: Finding[] = [];
  for (const warning of warnings) {
    const { name, detection } = warning;
    const detail = describeWarning(warning);
    findings.push({ event: "rep.guardrail.warning", name, detail, detection });
  }
  for (const { name, message: detail } of deprecated) {
    findings.push({ event: "rep.config.deprecated", name, detail });
  }
  for (const name of empty) {
    findings.push({ event: "rep.config.empty", name, detail: EMPTY_VALUE });
  }
  for (const { name, detail, isValue } of suspicious) {
    const kind = isValue ? "value" : "name";
    findings.push({ event: `rep.config.suspicious_${kind}`, name, detail });
  }
  return findings;
}

/** Describes a finding for people: with the name as in the environment. */
export function describeFinding(
  event: string,
  name: string,
  detail: LogFields[string],
  manifest: Manifest | undefined,
): string {
  const { tier = "public" } = manifest?.variables.get(name) ?? {};
  const key = isRepName(name) ? name : environmentName({ name, tier });
  const isDeprecated = event === "rep.config.deprecated";
  const subject = isDeprecated ? `${key} is deprecated` : key;
  return detail === undefined ? subject : `${subject}: ${detail}`;
}
