import { OPTION_PREFIX } from "../core/config/variables/tiers.ts";
import type { DeclaredVariable } from "./declared_variables.ts";
import type { ViteUserConfig } from "./vite.ts";

/** Returns the prefixes that names in `import.meta.env` have. */
export function envPrefixes(
  { envPrefix = "VITE_" }: Pick<ViteUserConfig, "envPrefix">,
): readonly string[] {
  return [envPrefix].flat();
}

/** Returns the name of a variable in `import.meta.env`. A name that already has a prefix stays the same. */
export function envNameOf(name: string, prefixes: readonly string[]): string {
  const hasPrefix = prefixes.some((prefix) => name.startsWith(prefix));
  return hasPrefix ? name : `${prefixes[0]}${name}`;
}

/** Returns the variables that a name in `import.meta.env` may stand for. */
export function variablesOf(
  envName: string,
  [prefix = ""]: readonly string[],
): string[] {
  if (!envName.startsWith(prefix)) return [envName];
  return [envName, envName.slice(prefix.length)];
}

/** The prefixes of names whose values no page may contain. */
const SECRET_PREFIXES = ["REP_SENSITIVE_", "REP_SERVER_", OPTION_PREFIX];

/** @throws {Error} If Vite would put SENSITIVE or SERVER variables, or the master key, into `import.meta.env`. */
export function rejectSecretPrefixes(prefixes: readonly string[]): void {
  const exposed = prefixes.find((prefix) =>
    SECRET_PREFIXES.some((secret) =>
      secret.startsWith(prefix) || prefix.startsWith(secret)
    )
  );
  if (exposed === undefined) return;
  throw new Error(
    `Cannot use envPrefix "${exposed}": Vite would put SENSITIVE and SERVER variables into import.meta.env; expected another prefix, such as VITE_`,
  );
}

/** Returns how an app can have the value of a SENSITIVE or SERVER variable that it reads from `import.meta.env`. */
export function remedyFor({ name, tier }: DeclaredVariable): string {
  const secretly = tier === "sensitive"
    ? `getSecure("${name}")`
    : `getPrivate("${name}") of a gateway on the server`;
  return `expected ${secretly}; or, if everyone may know it, a PUBLIC variable, with acceptPublic: ["${name}"] if it looks like a secret`;
}
