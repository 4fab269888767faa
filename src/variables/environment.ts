import { onlyOurs } from "./env_file.ts";
import type { Environment } from "./classify.ts";

/** Whether the process may do something without asking anybody. */
export function isGranted(permission: Deno.PermissionDescriptor): boolean {
  return Deno.permissions.querySync(permission).state === "granted";
}

/** The `REP_…` variables of the process; nothing without `--allow-env`, since asking would stop and prompt. */
export function readEnvironment(): Environment {
  return isGranted({ name: "env" }) ? onlyOurs(Deno.env.toObject()) : {};
}
