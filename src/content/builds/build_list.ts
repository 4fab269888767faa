import type { SharedDirectory } from "./shared_directory.ts";

/** The sizes of files in bytes, by their paths. */
export type Sizes = ReadonlyMap<string, number>;

/** The files of a build. */
export interface BuildList {
  /** The name of the list. */
  readonly name: string;
  readonly sizes: Sizes;
  /** When a gateway served the build last, by the clock of the directory. */
  readonly servedAt: number;
}

/** Reads the lists of an app's builds. */
export async function readLists(
  directory: SharedDirectory,
  folder: string,
): Promise<BuildList[]> {
  const lists: BuildList[] = [];
  for (const entry of await directory.list(`${folder}/builds`)) {
    const name = `${folder}/builds/${entry.name}`;
    const sizes = await readSizes(directory, name);
    lists.push({ name, sizes, servedAt: await directory.writtenAt(name) });
  }
  return lists;
}

/** Returns all files in lists. */
export function join(lists: readonly BuildList[]): Sizes {
  return new Map(lists.flatMap(({ sizes }) => [...sizes]));
}

/** Reads a list; an empty one if there is none, or a broken one, which the gateways with the build write again. */
export async function readSizes(
  directory: SharedDirectory,
  name: string,
): Promise<Sizes> {
  const text = await directory.read(name);
  try {
    return new Map(Object.entries(JSON.parse(text).files));
  } catch {
    return new Map();
  }
}
