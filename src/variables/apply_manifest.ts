import { type Declaration, formatValue, type Manifest } from "./manifest.ts";
import { environmentName, type Variable } from "./tier.ts";

/** What a manifest makes of the variables that were found. */
export interface ManifestResult {
  /** The variables, with the defaults of those that were unset. */
  readonly variables: readonly Variable[];
  readonly issues: readonly string[];
  /** The deprecated variables that are set. */
  readonly deprecated: readonly Deprecation[];
}

/** A variable that should no longer be set. */
export interface Deprecation {
  readonly name: string;
  /** What the manifest says about it. */
  readonly message: string | undefined;
}

/** Checks variables against a manifest and injects its defaults (spec, Health report, rule 1). */
export function applyManifest(variables: readonly Variable[], manifest: Manifest): ManifestResult {
  const found = new Map(variables.map((variable) => [variable.name, variable]));
  const all = [...variables];
  const issues: string[] = [];
  const deprecated: Deprecation[] = [];
  for (const [name, declaration] of manifest.variables) {
    const variable = found.get(name) ?? defaultOf(name, declaration);
    if (!variable) {
      if (declaration.required) issues.push(missing(name, declaration));
      continue;
    }
    if (!found.has(name)) all.push(variable);
    else if (declaration.deprecated) deprecated.push({ name, message: declaration.deprecatedMessage });
    const where = environmentName(variable);
    issues.push(...valueIssues(variable, declaration, found.has(name) ? where : `the default of ${where}`));
  }
  return { variables: all, issues, deprecated };
}

function defaultOf(name: string, { tier, default: value }: Declaration): Variable | undefined {
  return value === undefined ? undefined : { name, tier, value };
}

function missing(name: string, { tier }: Declaration): string {
  return `Cannot do without ${environmentName({ name, tier })}: the manifest requires it, but it is not set`;
}

function valueIssues(variable: Variable, declaration: Declaration, where: string): string[] {
  if (variable.tier !== declaration.tier) {
    const right = environmentName({ name: variable.name, tier: declaration.tier });
    return [`Cannot use ${where}: the manifest declares it as ${right}`];
  }
  const got = variable.tier === "public" ? `got ${formatValue(variable.value)}` : "its value is something else";
  return [typeIssue(variable.value, declaration), patternIssue(variable.value, declaration)]
    .filter((wanted) => wanted !== undefined)
    .map((wanted) => `Cannot use ${where}: expected ${wanted}, ${got}`);
}

function typeIssue(value: string, { tier, type, values = [] }: Declaration): string | undefined {
  switch (type) {
    case "url":
      return isUrl(value) ? undefined : "a URL";
    case "number":
      return value.trim() !== "" && Number.isFinite(Number(value)) ? undefined : "a number";
    case "boolean":
      return /^(true|false)$/i.test(value) ? undefined : "true or false";
    case "json":
      return isJson(value) ? undefined : "JSON";
    case "enum":
      if (values.includes(value)) return undefined;
      return tier === "public" ? `one of ${values.join(", ")}` : "one of the values in the manifest";
    case "string":
    case "csv":
      return undefined;
  }
}

/** The URL standard trims white space, and takes `localhost:3000` for a URL of a scheme called localhost. */
function isUrl(value: string): boolean {
  return URL.canParse(value) && !/\s|^(localhost|[\w-]+(\.[\w-]+)+):\d/.test(value);
}

function patternIssue(value: string, { tier, pattern }: Declaration): string | undefined {
  if (pattern === undefined || pattern.test(value)) return undefined;
  const source = pattern.source.slice("^(?:".length, -")$".length); // as it stands in the manifest
  return tier === "public" ? `what matches ${source}` : "what matches the pattern in the manifest";
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false; // the question was whether it can be parsed
  }
}
