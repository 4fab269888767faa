/** What a search for a program reads from the machine. */
export interface Machine {
  readonly os: typeof Deno.build.os;
  readonly arch: typeof Deno.build.arch;
  env(name: string): string | undefined;
  isFile(path: string): Promise<boolean>;
}

/** The machine this process runs on. */
export const THIS_MACHINE: Machine = {
  os: Deno.build.os,
  arch: Deno.build.arch,
  env: (name) => Deno.env.get(name),
  async isFile(path) {
    try {
      return (await Deno.stat(path)).isFile;
    } catch {
      return false; // missing, or not readable by this user
    }
  },
};

/** Returns the path of the first program that exists: the first name in every folder, then the next name. */
export async function findProgram(
  names: readonly string[],
  folders: readonly string[],
  machine: Machine,
): Promise<string | undefined> {
  const separator = machine.os === "windows" ? "\\" : "/";
  const paths = names.flatMap((name) =>
    folders.map((folder) => `${folder}${separator}${name}`)
  );
  return await findFile(paths, machine);
}

/** Returns the first path that names a file. */
export async function findFile(
  paths: readonly string[],
  { isFile }: Machine,
): Promise<string | undefined> {
  for (const path of paths) {
    if (await isFile(path)) return path;
  }
}

/** Returns the folders in `PATH`. */
export function foldersOnPath({ os, env }: Machine): string[] {
  return (env("PATH") ?? "").split(os === "windows" ? ";" : ":").filter((
    folder,
  ) => folder !== "");
}
