/** The modes of the files in a directory, in octal digits. */
export async function modesIn(
  directory: string,
): Promise<Record<string, string>> {
  const names = await Array.fromAsync(
    Deno.readDir(directory),
    ({ name }) => name,
  );
  const modes = names.sort().map(async (name) => {
    const { mode } = await Deno.stat(`${directory}/${name}`);
    return [name, ((mode ?? 0) & 0o777).toString(8)] as const;
  });
  return Object.fromEntries(await Promise.all(modes));
}
