/**
 * Imports an npm package on first use: on Deno by its `npm:` address, which Deno downloads; elsewhere by its name, as
 * whoever needs it has installed it.
 *
 * @param address Such as `npm:pg@8.23.1`. Not a literal in `import()`: Deno would download it for every gateway.
 */
export async function importPackage<Module>(address: string): Promise<Module> {
  return await import(globalThis.Deno === undefined ? address.replace(/^npm:(.+)@.*$/, "$1") : address);
}
