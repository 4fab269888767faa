import { isGranted } from "../values/runtime.ts";
import type { Environment } from "./classify.ts";

/** Returns the `REP_…` variables of the process; none without `--allow-env`, since reading them would prompt. */
export function readEnvironment(): Environment {
  return isGranted({ name: "env" }) ? pickRepVariables(allVariables()) : {};
}

/** On Deno, `process` is not even looked at, since that loads the Node layer. Some runtimes have neither. */
function allVariables(): Environment {
  return globalThis.Deno?.env.toObject() ??
    (globalThis as { process?: { env: Environment } }).process?.env ?? {};
}

/**
 * Returns the `REP_…` variables of an environment. Others may be secrets of other programs and are not kept in memory.
 */
export function pickRepVariables(environment: Environment): Environment {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => isRepName(name)),
  );
}

/** Returns whether a name begins with `REP_`. */
export function isRepName(name: string): boolean {
  return name.startsWith("REP_");
}
