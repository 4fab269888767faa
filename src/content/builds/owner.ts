import { masterKeyFingerprint } from "../../core/keys/epochs.ts";
import { sharedMasterKey } from "../../core/keys/master_key.ts";
import type { CoreServices, CoreSettings } from "../../core/settings.ts";
import { storeOfApp } from "../../core/store/app_store.ts";
import { MEMORY } from "../../engines/memory.ts";
import type { SharedDirectory } from "./shared_directory.ts";

/** The folder of an app without a name, and of a build that all sites share. */
export const NO_APP = "_";

/** The beginning of the file that says whose a folder is. A folder without one is never swept. */
const MARK = "builds of @rep/gateway ";

/**
 * Returns what all gateways of an app have in common, and no others: the fingerprint of their master key, which is no
 * secret. It is empty if the store is in memory or unavailable.
 */
export async function ownerOf(
  folder: string,
  { masterKey }: Pick<CoreSettings, "masterKey">,
  { breaker, clock, random }: Pick<
    CoreServices,
    "breaker" | "clock" | "random"
  >,
): Promise<string> {
  if (masterKey === undefined && breaker.availability.engine === MEMORY) {
    return "";
  }
  const app = folder === NO_APP ? undefined : folder;
  try {
    const key = masterKey ??
      await sharedMasterKey(storeOfApp(breaker, app), { clock, random });
    return await masterKeyFingerprint(key);
  } catch {
    return ""; // the circuit breaker logs the outage
  }
}

/** Returns the name of the file that says whose a folder is. It is written as often as the lists of builds. */
export function ownerName(folder: string): string {
  return `${folder}/owner`;
}

/** Returns whether a folder is that of an app. One that may not be read, such as `lost+found` of a volume, is not. */
export async function hasOwner(
  directory: SharedDirectory,
  folder: string,
): Promise<boolean> {
  try {
    const text = await directory.read(ownerName(folder));
    return text.startsWith(MARK);
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return false;
    throw error;
  }
}

/**
 * Returns the text that the file should have.
 *
 * @throws {Error} If the folder belongs to another app.
 */
export async function checkOwner(
  directory: SharedDirectory,
  folder: string,
  owner: string,
): Promise<string> {
  const text = await directory.read(ownerName(folder)) || MARK;
  const own = MARK + owner;
  if (text === MARK || text === own) return own;
  if (owner === "" && text.startsWith(MARK)) return text;
  throw new Error(
    `expected the files of this app, got those of another app or master key: set --app NAME if it is another app; if not, keep the store (--kv) or the master key, and remove "${
      ownerName(folder)
    }"`,
  );
}
