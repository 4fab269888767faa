/** Returns whether a permission is already granted, so that using it does not prompt. */
export function isGranted(permission: Deno.PermissionDescriptor): boolean {
  return Deno.permissions.querySync(permission).state === "granted";
}
