import { OPTION_PREFIX } from "../core/config/variables/tiers.ts";
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
