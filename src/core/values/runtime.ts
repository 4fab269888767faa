/** The differences between runtimes: functions, permissions, and how they find packages. */

/**
 * Checks that the runtime is new enough. Otherwise, a missing function would cause a `TypeError` much later.
 *
 * @throws {Error} If the runtime is too old.
 */
export function requireRuntime(): void {
  if ("groupBy" in Map) return;
  const { process } = globalThis as { process?: { version: string } };
  throw new Error(
    `Cannot use @rep/gateway: it needs Node.js 22.15 or newer, got ${process?.version}`,
  );
}

/**
 * Returns whether a permission is granted, so that Deno does not prompt for it. Other runtimes do not need permissions.
 */
export function isGranted(permission: Deno.PermissionDescriptor): boolean {
  if (globalThis.Deno === undefined) return true;
  return Deno.permissions.querySync(permission).state === "granted";
}

/** Returns a variable of the process in Deno; `undefined` also if it may not be read, since Deno would prompt. */
export function readVariable(variable: string): string | undefined {
  const isReadable = isGranted({ name: "env", variable });
  return isReadable ? Deno.env.get(variable) : undefined;
}

/**
 * Imports an npm package on first use: on Deno by its `npm:` address, so that Deno downloads it; elsewhere by its name,
 * since projects that need it install it.
 *
 * @param address For example `npm:pg@8.23.1`. It is a parameter because Deno downloads literal addresses for every
 * gateway.
 */
export async function importPackage<Module>(address: string): Promise<Module> {
  const name = address.replace(/^npm:(.+)@.*$/, "$1");
  if (globalThis.Deno === undefined) {
    return await import(/* @vite-ignore */ name);
  }
  try {
    return await import(/* @vite-ignore */ address);
  } catch (error) {
    // In npm packages, such as this one, Deno follows the rules of Node.js.
    if (!String(error).includes("ERR_UNSUPPORTED_ESM_URL_SCHEME")) throw error;
    return await import(/* @vite-ignore */ name);
  }
}
