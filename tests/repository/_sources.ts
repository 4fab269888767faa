/** Returns the paths of the modules under a folder. */
export async function modulesIn(folder: string): Promise<string[]> {
  const paths: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory) paths.push(...await modulesIn(path));
    else if (path.endsWith(".ts")) paths.push(path);
  }
  return paths;
}

/** Returns the texts of the modules under a folder, by their paths. */
export async function readModules(
  folder: string,
): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const path of await modulesIn(folder)) {
    texts.set(path, await Deno.readTextFile(path));
  }
  return texts;
}
