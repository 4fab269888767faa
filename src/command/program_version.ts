import { isGranted } from "../core/values/runtime.ts";
import { VERSION } from "../version.ts";

/** In a checkout, the folder of the repository; in a worktree, a file that names it. */
const GIT = new URL("../../.git", import.meta.url);

/**
 * Returns the version that the program shows. In a checkout that it may read, it has the commit, as
 * `tools/release.ts stamp` writes it into builds: `0.1.0+1a2b3c4d`. Versions in a registry are never replaced, and have
 * none.
 *
 * @param git See {@linkcode GIT}.
 */
export async function programVersion(git = GIT): Promise<string> {
  if (git.protocol !== "file:" || VERSION.includes("+")) return VERSION;
  const [, folder = ".git"] = /^gitdir: (.+)/.exec(await readText(git)) ?? [];
  const log = await readText(new URL(`${folder}/logs/HEAD`, git));
  // Each line begins with the commit before and the commit after.
  const [, commit] = /^\w+ (\w{8})\w* /.exec(lastLine(log)) ?? [];
  return commit === undefined ? VERSION : `${VERSION}+${commit}`;
}

function lastLine(text: string): string {
  return text.trimEnd().split("\n").at(-1) ?? "";
}

/** Returns the text of a file; an empty one if this is no checkout, or Deno would prompt for the permission. */
async function readText(path: URL): Promise<string> {
  if (path.protocol !== "file:") return ""; // a worktree on Windows: "gitdir: C:/…"
  if (!isGranted({ name: "read", path })) return "";
  return await Deno.readTextFile(path).catch(() => "");
}
