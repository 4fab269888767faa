import { join } from "@std/path";
import { buildNpmPackage } from "../tools/npm_package.ts";

let built: Promise<string> | undefined;

/** Returns the folder of the gateway's npm package, which is built once for each test file. */
export async function gatewayPackage(): Promise<string> {
  return join(await (built ??= build()), "package");
}

Deno.test.afterAll(async () => {
  if (built !== undefined) await Deno.remove(await built, { recursive: true });
});

async function build(): Promise<string> {
  const folder = await Deno.makeTempDir();
  await buildNpmPackage(folder);
  return folder;
}
