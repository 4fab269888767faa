import { isGranted } from "../../values/permissions.ts";

/** Whether the process runs on Deno Deploy, which sets this variable. */
export function isOnDeploy(): boolean {
  return isGranted({ name: "env", variable: "DENO_DEPLOY" }) && Deno.env.get("DENO_DEPLOY") === "true";
}
