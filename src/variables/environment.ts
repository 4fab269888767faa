import { isGranted } from "../permissions.ts";
import type { Environment } from "./classify.ts";

/** The `REP_…` variables of the process; nothing without `--allow-env`, since asking would stop and prompt. */
export function readEnvironment(): Environment {
  return isGranted({ name: "env" }) ? onlyOurs(Deno.env.toObject()) : {};
}

/** Leaves out everything that is not `REP_…`: what is not ours is not kept, not even in memory. */
export function onlyOurs(environment: Environment): Environment {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => isOurs(name)));
}

/** Whether a name is one of ours. */
export function isOurs(name: string): boolean {
  return name.startsWith("REP_");
}
