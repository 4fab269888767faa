import { join } from "@std/path";

/** Returns the paths of the Markdown pages in a folder, sorted. */
export async function markdownIn(folder: string): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
  return names.filter((name) => name.endsWith(".md")).map((name) =>
    join(folder, name)
  ).toSorted();
}
