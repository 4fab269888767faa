/**
 * Finds the `denokv` server, or builds it, which takes minutes and needs Rust:
 *
 *     deno run -A tools/denokv.ts
 */
import { join } from "@std/path";
import { findProgram, foldersOnPath, THIS_MACHINE } from "./find_program.ts";

const IS_WINDOWS = Deno.build.os === "windows";

/** Returns the path of `denokv`: from `DENOKV`, the `PATH`, or where `cargo install` puts it; `undefined` if it is missing. */
export async function findDenokv(): Promise<string | undefined> {
  const name = IS_WINDOWS ? "denokv.exe" : "denokv";
  const folders = [...foldersOnPath(THIS_MACHINE), ...cargoFolders()];
  return Deno.env.get("DENOKV") || await findProgram([name], folders, THIS_MACHINE);
}

/** Returns the folders in the order in which `cargo install` chooses one. */
function cargoFolders(): string[] {
  const home = Deno.env.get(IS_WINDOWS ? "USERPROFILE" : "HOME");
  const roots = [Deno.env.get("CARGO_INSTALL_ROOT"), Deno.env.get("CARGO_HOME"), home && join(home, ".cargo")];
  return roots.flatMap((root) => root ? [join(root, "bin")] : []);
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
