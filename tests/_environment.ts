import type { Environment } from "../src/core/config/variables/tiers.ts";

/**
 * Runs a function with more variables in the environment that this file's tests see. If they were really set, they would
 * be set for the whole process: for the test files that run in its other threads, and for the programs that these start.
 */
export async function withEnvironment<T>(
  variables: Environment,
  run: () => T | Promise<T>,
): Promise<T> {
  const { get, toObject } = Deno.env;
  Deno.env.get = (name) => variables[name] ?? get(name);
  Deno.env.toObject = () => ({ ...toObject(), ...variables });
  try {
    return await run();
  } finally {
    Object.assign(Deno.env, { get, toObject });
  }
}
