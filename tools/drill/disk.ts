import { run } from "./process.ts";

/** Large enough for the database of a gateway. */
const SIZE = "4m";

/** Returns the beginning of a command that mounts a small disk at a directory, which only its process sees. */
export function withDisk(directory: string): string[] {
  const mount = `mount -t tmpfs -o size=${SIZE} drill ${directory}`;
  const asRoot = Deno.uid() === 0 ? [] : ["--map-root-user"];
  return [
    ...["unshare", "--mount", ...asRoot],
    ...["sh", "-c", `${mount} && exec "$@"`, "sh"],
  ];
}

/** Why no disk can be mounted here. */
export async function cannotMount(): Promise<string | undefined> {
  const directory = await Deno.makeTempDir();
  const [program, ...args] = [...withDisk(directory), "true"];
  try {
    const { code, text } = await run(program!, args);
    return code === 0 ? undefined : `no right to mount: ${text.trim()}`;
  } catch {
    return "unshare is missing";
  } finally {
    await Deno.remove(directory);
  }
}

/** Fills the disk of a process, and returns the path of the file that fills it. */
export async function fill(pid: number, directory: string): Promise<string> {
  const path = `/proc/${pid}/root${directory}/filling`;
  const args = ["if=/dev/zero", `of=${path}`, "bs=1024"];
  await run("dd", args); // it fails once the disk is full
  return path;
}
