import type { ViteConfig } from "./vite.ts";

/**
 * Returns whether Vitest has started this Vite server for its own use. The variable `VITEST` cannot tell: it is also set
 * where a test starts Vite itself.
 */
export function isVitest({ plugins = [] }: ViteConfig): boolean {
  return plugins.some(({ name }) => /^vitest(?::|$)/.test(name));
}
