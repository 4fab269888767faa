import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";
import { resolve } from "@std/path/resolve";
import fs from "node:fs/promises";

/** The part of a `package.json` that is used. */
export interface Package {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly workspaces?: unknown;
}

/** Returns a directory and its parents, the nearest first. */
function withParents(directory: string): string[] {
  const directories = [resolve(directory)];
  for (const path of directories) { // grows while it is iterated
    const parent = dirname(path);
    if (parent !== path) directories.push(parent);
  }
  return directories;
}

/** Returns the root of the workspace that a directory is in; `undefined` if it is in none. */
export async function findWorkspaceRoot(
  directory: string,
): Promise<string | undefined> {
  for (const parent of withParents(directory)) {
    const { workspaces } = await readPackage(parent);
    const hasPnpm = await isThere(join(parent, "pnpm-workspace.yaml"));
    if (workspaces !== undefined || hasPnpm) return parent;
  }
  return undefined;
}

/**
 * Returns the directories of the packages that an app depends on, also through others, and whose sources the workspace
 * contains: package managers link them into `node_modules`.
 */
export async function findLinkedPackages(app: string): Promise<string[]> {
  const own = await fs.realpath(app);
  const directories = new Set([own]);
  for (const directory of directories) { // grows while it is iterated
    const { dependencies, devDependencies } = await readPackage(directory);
    for (const name of Object.keys({ ...dependencies, ...devDependencies })) {
      const found = await findInstalled(name, directory);
      const isLinked = found?.split(/[\\/]/).includes("node_modules") === false;
      if (isLinked) directories.add(found);
    }
  }
  directories.delete(own);
  return [...directories];
}

/** Returns the directory of an installed package, without links: in this directory or the nearest parent that has it. */
async function findInstalled(
  name: string,
  directory: string,
): Promise<string | undefined> {
  for (const parent of withParents(directory)) {
    const found = join(parent, "node_modules", name);
    if (await isThere(found)) return await fs.realpath(found);
  }
  return undefined;
}

/** Returns whether there is a file or a directory at a path. */
export async function isThere(path: string): Promise<boolean> {
  return await fs.stat(path).then(() => true, () => false);
}

/** Returns the `package.json` of a directory; an empty one if there is none. */
export async function readPackage(directory: string): Promise<Package> {
  try {
    return JSON.parse(
      await fs.readFile(join(directory, "package.json"), "utf8"),
    );
  } catch {
    return {}; // it is absent, or invalid, which package managers report
  }
}
