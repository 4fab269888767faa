import type { ViteUserConfig } from "./vite.ts";

/** Returns the prefixes of names in `import.meta.env`. */
export function envPrefixes(
  { envPrefix = "VITE_" }: Pick<ViteUserConfig, "envPrefix">,
): readonly string[] {
  return [envPrefix].flat();
}

/** Returns the name of a variable in `import.meta.env`: one that has a prefix already gets no other. */
export function envNameOf(name: string, prefixes: readonly string[]): string {
  const hasPrefix = prefixes.some((prefix) => name.startsWith(prefix));
  return hasPrefix ? name : `${prefixes[0]}${name}`;
}
