import { join } from "@std/path";
import { buildNpmPackage } from "../tools/npm_package.ts";

/** The gateway's npm package. */
export interface NpmPackage {
  /** Its files. */
  readonly folder: string;
  /** What `npm install` takes. */
  readonly tarball: string;
}

let built: Promise<NpmPackage & { root: string }> | undefined;

Deno.test.afterAll(async () => {
  const root = (await built)?.root;
  if (root !== undefined) await Deno.remove(root, { recursive: true });
});

/** Returns the package, which is built once for each test file: that takes seconds. */
export function npmPackage(): Promise<NpmPackage> {
  return built ??= build();
}

async function build() {
  const root = await Deno.makeTempDir();
  const tarball = await buildNpmPackage(root);
  return { root, folder: join(root, "package"), tarball };
}
