import { isGranted } from "../../values/permissions.ts";

/** The manifest of a project, as in REP's own command-line tool. */
export const DEFAULT_MANIFEST = ".rep.yaml";

/** Returns the manifest in the current directory; `undefined` if there is none, or if it cannot be read. */
export async function findDefaultManifest(): Promise<string | undefined> {
  if (!isGranted({ name: "read", path: DEFAULT_MANIFEST })) return undefined;
  const isThere = await Deno.stat(DEFAULT_MANIFEST).then(() => true, () => false);
  return isThere ? DEFAULT_MANIFEST : undefined;
}
