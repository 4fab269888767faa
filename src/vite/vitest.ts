import type { ViteAlias, ViteUserConfig } from "./vite.ts";

/** The module that tests replace, and its double. */
const CLIENT = "@rep/gateway/client";
const DOUBLE = "@rep/gateway/testing";

/**
 * Returns whether Vitest has started this Vite server for its own use. The variable `VITEST` cannot tell: it is also set
 * where a test starts Vite itself.
 */
export function isVitest(
  { plugins = [] }: { readonly plugins?: readonly unknown[] | undefined },
): boolean {
  const all = plugins.flat(Infinity) as ({ name?: string } | null)[];
  return all.some((plugin) => /^vitest(?::|$)/.test(plugin?.name ?? ""));
}

/**
 * Returns the configuration with which tests import the client's double, also in the hooks, which Node.js would load itself.
 * An alias that the user has for the client stays.
 */
export function testConfig({ resolve, test }: ViteUserConfig): object {
  const isAliased = hasAlias(resolve?.alias) || hasAlias(test?.alias);
  return {
    resolve: { alias: isAliased ? {} : { [CLIENT]: DOUBLE } },
    ssr: { noExternal: ["@rep/gateway"] },
  };
}

function hasAlias(alias: ViteAlias = []): boolean {
  const found = Array.isArray(alias)
    ? alias.map(({ find }) => find)
    : Object.keys(alias);
  return found.some((find) =>
    typeof find === "string"
      ? `${CLIENT}/`.startsWith(`${find}/`)
      : find.test(CLIENT)
  );
}
