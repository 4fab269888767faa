import { parseJson } from "../../values/parse_json.ts";
import type { Finding } from "./finding.ts";
import { environmentName, type Variable } from "./tiers.ts";

/**
 * Finds values with quotes or white space around them, which `docker run --env-file` and others take for a part of the
 * value. It finds nothing in JSON, and no white space around PEM blocks.
 *
 * @param declarations The declarations of the manifest, by name.
 */
export function findSuspiciousValues(
  variables: readonly Variable[],
  declarations: ReadonlyMap<string, { readonly type: string }>,
): Finding[] {
  const found: Finding[] = [];
  const event = "rep.config.suspicious_value";
  for (const variable of variables) {
    if (declarations.get(variable.name)?.type === "json") continue;
    const around = whatIsAround(variable.value);
    if (around === undefined) continue;
    const detail = `expected a value without ${around} around it`;
    found.push({ event, name: environmentName(variable), detail });
  }
  return found;
}

function whatIsAround(value: string): string | undefined {
  if (/^(["'`]).*\1$/s.test(value)) return "quotes";
  if (value === value.trim() || value.includes("-----BEGIN ")) return undefined;
  const isStructure = /^\s*[[{]/.test(value); // ` 5` is JSON as well
  return isStructure && parseJson(value) !== undefined
    ? undefined
    : "white space";
}
