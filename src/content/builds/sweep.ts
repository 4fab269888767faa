import {
  type BuildList,
  findLists,
  readList,
  readLists,
} from "./build_list.ts";
import { hasOwner, ownerName } from "./owner.ts";
import type { SharedDirectory } from "./shared_directory.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** How long a build is kept after it was served last, and a file that no list names. */
const KEPT_MS = 7 * DAY_MS;
/** A list that was written so recently may be of a build that is served: each hour, by clocks that may differ by one. */
const SERVED_MS = 3 * HOUR_MS;
/** The size of an app's builds beyond which the oldest ones are not kept. */
const MAX_BYTES = 1024 ** 3;
/** Written by each sweep. */
const SWEPT = ".swept";

/**
 * Removes what is kept no longer, in the folders of all apps, since nobody else does that for a site that is gone. One of
 * the gateways does it, once a day. Ages count from the newest time in the directory, because clocks differ.
 *
 * @param served The list of the build that this gateway serves.
 */
export async function sweepDaily(
  directory: SharedDirectory,
  served: string,
): Promise<void> {
  const folders = new Map<string, number>();
  for (const { name } of await directory.list("")) {
    if (!await hasOwner(directory, name)) continue;
    folders.set(name, await directory.writtenAt(ownerName(name)));
  }
  const newest = Math.max(...folders.values());
  const sweptAt = await directory.writtenAt(SWEPT);
  if (Math.abs(newest - sweptAt) < DAY_MS) return;
  await directory.write(SWEPT, "");
  let failure: unknown;
  for (const [folder, usedAt] of folders) {
    const sweeping = newest - usedAt > KEPT_MS
      ? directory.remove(folder)
      : sweepFolder(directory, folder, newest, served);
    await sweeping.catch((error) => failure ??= error); // the user of another app may own its folder
  }
  if (failure !== undefined) throw failure;
}

async function sweepFolder(
  directory: SharedDirectory,
  folder: string,
  newest: number,
  served: string,
): Promise<void> {
  for (const own of ["builds", "files"]) {
    const stats = await directory.stat(`${folder}/${own}`);
    if (stats?.isSymlink) return; // to what may be somebody else's
  }
  const lists = await findLists(directory, folder);
  const ended = (await findEnded(directory, lists, newest))
    .filter(({ name }) => name !== served);
  const wasListed = await readLists(directory, ended);
  for (const { name } of ended) await directory.remove(name);
  const outdated: string[] = [];
  for await (const key of filesBelow(directory, `${folder}/files/`)) {
    const age = newest - await directory.writtenAt(`${folder}/files/${key}`);
    if (age > KEPT_MS || wasListed.has(key)) outdated.push(key);
  }
  // The lists as they are now: a gateway that has written one meanwhile trusts what it finds.
  const left = await findLists(directory, folder);
  const listed = await readLists(directory, left);
  for (const key of outdated.filter((key) => !listed.has(key))) {
    await directory.remove(`${folder}/files/${key}`);
  }
}

/** Finds the lists of builds that are too old, and of the oldest ones if all are too large. */
async function findEnded(
  directory: SharedDirectory,
  lists: readonly BuildList[],
  newest: number,
): Promise<BuildList[]> {
  const ended: BuildList[] = [];
  const known = new Set<string>();
  let bytes = 0;
  for (const list of lists.toSorted((a, b) => b.servedAt - a.servedAt)) {
    const { sizes } = await readList(directory, list.name);
    for (const [key, size] of sizes) {
      if (!known.has(key)) bytes += size;
      known.add(key);
    }
    const age = newest - list.servedAt;
    const isTooMuch = age > SERVED_MS && bytes > MAX_BYTES;
    if (age > KEPT_MS || isTooMuch) ended.push(list);
  }
  return ended;
}

/** Returns the paths of all files in a directory. It follows no links. */
async function* filesBelow(
  directory: SharedDirectory,
  root: string,
  prefix = "",
): AsyncGenerator<string> {
  for (const { name, isDirectory } of await directory.list(root + prefix)) {
    if (isDirectory) yield* filesBelow(directory, root, `${prefix}${name}/`);
    else yield prefix + name;
  }
}
