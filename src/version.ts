/**
 * The version of the package, as in `deno.json`. A build may write its commit here (`tools/release.ts stamp`). It is a
 * constant, since not every runtime imports JSON.
 */
export const VERSION = "0.1.0";
