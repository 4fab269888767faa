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
    const { sizes } = await readList(directory, name);
    lists.push({ name, sizes, servedAt: await directory.writtenAt(name) });
  }
  return lists;
}

/** Returns all files in lists. */
export function join(lists: readonly BuildList[]): Sizes {
  return new Map(lists.flatMap(({ sizes }) => [...sizes]));
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
