import type { SharedDirectory } from "./shared_directory.ts";

/** The sizes of files in bytes, by their paths. */
export type Sizes = ReadonlyMap<string, number>;

/** The list of the files of a build. */
export interface BuildList {
  readonly name: string;
  /** When a gateway served the build last, by the clock of the directory. */
  readonly servedAt: number;
}

/** Finds the lists of an app's builds. */
export async function findLists(
  directory: SharedDirectory,
  folder: string,
): Promise<BuildList[]> {
  const lists: BuildList[] = [];
  for (const entry of await directory.list(`${folder}/builds`)) {
    const name = `${folder}/builds/${entry.name}`;
    lists.push({ name, servedAt: await directory.writtenAt(name) });
  }
  return lists;
}

/** Reads all files in lists, one list at a time: there may be a hundred builds, each with thousands of the same files. */
export async function readLists(
  directory: SharedDirectory,
  lists: readonly BuildList[],
): Promise<Sizes> {
  const all = new Map<string, number>();
  for (const { name } of lists) {
    const { sizes } = await readList(directory, name);
    for (const [key, size] of sizes) all.set(key, size);
  }
  return all;
}

/** What a list says. */
export interface ListedFiles {
  readonly sizes: Sizes;
  /** Whether all of them are kept. */
  readonly complete: boolean;
}

/** Reads a list; an empty one if there is none, or a broken one, which the gateways with the build write again. */
export async function readList(
  directory: SharedDirectory,
  name: string,
): Promise<ListedFiles> {
  const text = await directory.read(name);
  try {
    const { files, complete } = JSON.parse(text);
    const sizes = new Map(Object.entries<number>(files));
    return { sizes, complete: complete === true };
  } catch {
    return { sizes: new Map(), complete: false };
  }
}

/** Writes a list: before its files, so that nobody removes them, and again when all of them are kept. */
export async function writeList(
  directory: SharedDirectory,
  name: string,
  { sizes, complete }: ListedFiles,
): Promise<void> {
  const files = Object.fromEntries(sizes);
  await directory.write(name, JSON.stringify({ files, complete }));
}
