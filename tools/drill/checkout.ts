import { join, resolve, toFileUrl } from "@std/path";
import { run } from "./process.ts";

/** The files of a commit, from which its gateways and commands run. */
export interface Checkout {
  readonly directory: string;
  /** Arguments for `deno` in that directory that run the command as users run it: from a registry, with all permissions. */
  readonly args: readonly string[];
}

/** Describes the checkout in a directory, whose own `tools/std.ts` knows its packages. */
export async function checkoutIn(directory: string): Promise<Checkout> {
  const root = resolve(directory);
  const std = await import(toFileUrl(join(root, "tools/std.ts")).href);
  const flags: string[] = await std.registryFlags();
  return {
    directory: root,
    args: ["run", "--quiet", ...flags, "--unstable-kv", "-A"],
  };
}

/** Writes the files of a commit of this repository into a new directory. */
export async function extract(
  commit: string,
  directory: string,
): Promise<Checkout> {
  await Deno.mkdir(directory);
  const archive = join(directory, "checkout.tar");
  await runToEnd("git", ["archive", "--output", archive, commit]);
  await runToEnd("tar", ["-xf", archive, "-C", directory]);
  return await checkoutIn(directory);
}

/** Returns why the files of a commit cannot be had here. */
export async function cannotExtract(
  commit: string,
): Promise<string | undefined> {
  const { code } = await run("git", ["cat-file", "-e", `${commit}^{commit}`])
    .catch(() => ({ code: 1 })); // no git
  return code === 0
    ? undefined
    : `no commit ${commit} here: git fetch --unshallow brings it`;
}

async function runToEnd(program: string, args: string[]): Promise<void> {
  const { code, text } = await run(program, args);
  if (code === 0) return;
  throw new Error(`Cannot run ${program} ${args.join(" ")}: ${text.trim()}`);
}
