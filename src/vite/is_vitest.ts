import type { ViteConfig } from "./vite.ts";

/** Vitest starts a server of Vite for its own use. Its variable `VITEST` is also set where a test starts Vite. */
export function isVitest(
  { plugins = [] }: Pick<ViteConfig, "plugins">,
): boolean {
  return plugins.some(({ name }) => /^vitest(?::|$)/.test(name));
}
