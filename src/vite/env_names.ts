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
