/**
 * Finds the `denokv` server, or builds it, which takes minutes and needs Rust:
 *
 *     deno run -A tools/denokv.ts
 */
import { join } from "@std/path";

const IS_WINDOWS = Deno.build.os === "windows";

/** Where `denokv` is: where DENOKV says, on the PATH, or where `cargo install` puts it; nothing if it is nowhere. */
export async function findDenokv(): Promise<string | undefined> {
  const named = Deno.env.get("DENOKV");
  if (named) return named;
  const name = IS_WINDOWS ? "denokv.exe" : "denokv";
  for (const folder of [...foldersOnPath(), ...foldersOfCargo()]) {
    const program = join(folder, name);
    if (await isFile(program)) return program;
  }
}

function foldersOnPath(): string[] {
  const path = Deno.env.get("PATH") ?? "";
  return path.split(IS_WINDOWS ? ";" : ":").filter((folder) => folder !== "");
}

/** In the order in which `cargo install` chooses. */
function foldersOfCargo(): string[] {
  const home = Deno.env.get(IS_WINDOWS ? "USERPROFILE" : "HOME");
  const roots = [Deno.env.get("CARGO_INSTALL_ROOT"), Deno.env.get("CARGO_HOME"), home && join(home, ".cargo")];
  return roots.flatMap((root) => root ? [join(root, "bin")] : []);
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await Deno.stat(path)).isFile;
  } catch {
    return false; // not there, or not ours to look at
  }
}

async function installDenokv(): Promise<void> {
  const { success } = await new Deno.Command("cargo", { args: ["install", "denokv", "--locked"] }).spawn().status;
  if (!success) throw new Error("Cannot install denokv: expected `cargo install denokv --locked` to work");
}

async function main(): Promise<void> {
  if (await findDenokv() === undefined) await installDenokv();
  const program = await findDenokv();
  if (program === undefined) throw new Error("Cannot find denokv: expected it on the PATH, or DENOKV to name it");
  await Deno.stdout.write(new TextEncoder().encode(`denokv is ${program}\n`));
}

if (import.meta.main) await main();
