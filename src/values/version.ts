/** The version of the package, as in `deno.json`. A constant, since not every runtime imports JSON. */
export const VERSION = "0.1.0";
