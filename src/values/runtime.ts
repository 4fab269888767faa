/** What differs between runtimes: what they have, what they permit, and how they find packages. */

/**
 * Checks that the runtime has what the gateway needs: a missing function would be a `TypeError` somewhere in the middle.
 *
 * @throws {Error} If the runtime is too old.
 */
export function requireRuntime(): void {
  if ("groupBy" in Map) return;
  throw new Error(
    "Cannot use @rep/gateway: expected Map.groupBy(), as in Node.js 22 or later",
  );
}

/** Returns whether a permission is already granted, so that using it does not prompt. Other runtimes than Deno have none. */
export function isGranted(permission: Deno.PermissionDescriptor): boolean {
  if (globalThis.Deno === undefined) return true;
  return Deno.permissions.querySync(permission).state === "granted";
}

/**
 * Imports an npm package on first use: on Deno by its `npm:` address, which Deno downloads; elsewhere by its name, as
 * whoever needs it has installed it.
 *
 * @param address Such as `npm:pg@8.23.1`. Not a literal in `import()`: Deno would download it for every gateway.
 */
export async function importPackage<Module>(address: string): Promise<Module> {
  const name = address.replace(/^npm:(.+)@.*$/, "$1");
  if (globalThis.Deno === undefined) {
    return await import(/* @vite-ignore */ name);
  }
  try {
    return await import(/* @vite-ignore */ address);
  } catch (error) {
    // Within npm packages, this one included, Deno has the rules of Node.js.
    if (!String(error).includes("ERR_UNSUPPORTED_ESM_URL_SCHEME")) throw error;
    return await import(/* @vite-ignore */ name);
  }
}
