import { classify, type Environment, hasTier } from "./classify.ts";
import { isRepName } from "./environment.ts";
import type { Manifest } from "./manifest.ts";
import { environmentName } from "./tier.ts";

/** A name that is probably misspelled. */
export interface SuspiciousName {
  /** As in the environment. */
  readonly name: string;
  readonly detail: string;
}

/** The prefix of options, which `unknownVariables()` of the command checks. */
export const OPTION_PREFIX = "REP_GATEWAY_";

/** Finds `REP_…` names without a tier, which are ignored, and names that the manifest does not declare. */
export function findSuspiciousNames(
  environment: Environment,
  manifest: Pick<Manifest, "variables">,
): SuspiciousName[] {
  const ignored = Object.keys(environment)
    .filter((name) =>
      isRepName(name) && !name.startsWith(OPTION_PREFIX) && !hasTier(name)
    )
    .map((name) => ({
      name,
      detail:
        "it is ignored: expected the prefix REP_PUBLIC_, REP_SENSITIVE_ or REP_SERVER_",
    }));
  const isDeclaring = manifest.variables.size > 0; // a manifest may have settings only
  const variables = isDeclaring ? classify(environment).variables : [];
  const undeclared = variables
    .filter(({ name }) => !manifest.variables.has(name))
    .map((variable) => ({
      name: environmentName(variable),
      detail: "the manifest does not declare it",
    }));
  return [...ignored, ...undeclared];
}
