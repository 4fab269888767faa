/** Returns whether a permission is already granted, so that using it does not prompt. Other runtimes than Deno have none. */
export function isGranted(permission: Deno.PermissionDescriptor): boolean {
  return globalThis.Deno === undefined ||
    Deno.permissions.querySync(permission).state === "granted";
}
