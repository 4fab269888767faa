import type { LogFields } from "../../observe/log.ts";
import { describeWarning, type GuardrailWarning } from "./guardrails.ts";
import type { Manifest } from "./manifest.ts";
import { environmentName, isRepName } from "./tiers.ts";

/** What is wrong with a variable, although the configuration is valid. */
export interface Finding {
  /** The event of the log. */
  readonly event: string;
  /** The name of the variable, in some events with its prefix. */
  readonly name: string;
  readonly detail: string | undefined;
  /** Why its value looks like a secret; `undefined` if it does not. */
  readonly detection?: string;
}

/** What is found in variables, besides issues. */
export interface Findings {
  readonly warnings: readonly GuardrailWarning[];
  /** By event: what is deprecated first. */
  readonly otherFindings: readonly Finding[];
}

/** The event of a deprecated variable that is set. Its detail is the manifest's message, if there is one. */
export const DEPRECATED = "rep.config.deprecated";

/** The event of a name that is probably misspelled or has no effect. */
export const SUSPICIOUS_NAME = "rep.config.suspicious_name";

/** Returns the finding of a name that is probably misspelled or has no effect. @param name As in the environment. */
export function suspiciousName(name: string, detail: string): Finding {
  return { event: SUSPICIOUS_NAME, name, detail };
}

/** Returns all findings, first the values that look like secrets. */
export function allFindings({ warnings, otherFindings }: Findings): Finding[] {
  const secrets = warnings.map((warning) => {
    const { name, detection } = warning;
    const detail = describeWarning(warning);
    return { event: "rep.guardrail.warning", name, detail, detection };
  });
  return [...secrets, ...otherFindings];
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
  const subject = event === DEPRECATED ? `${key} is deprecated` : key;
  return detail === undefined ? subject : `${subject}: ${detail}`;
}
