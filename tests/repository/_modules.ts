const ROOT = new URL("../../", import.meta.url);

/** Returns the paths of the modules under a folder. */
export async function modulesIn(folder: string): Promise<string[]> {
  const paths = await Array.fromAsync(
    Deno.readDir(new URL(folder, ROOT)),
    ({ name, isDirectory }) => {
      const path = `${folder}/${name}`;
      if (isDirectory) return modulesIn(path);
      return path.endsWith(".ts") ? [path] : [];
    },
  );
  return paths.flat();
}
