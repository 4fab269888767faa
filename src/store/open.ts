import type { Log } from "../log.ts";
import { isGranted } from "../variables/environment.ts";
import { kvStore } from "./kv.ts";
import { memoryStore } from "./memory.ts";
import type { Store } from "./store.ts";

/** What the memory store cannot do, for the log. */
const LOST = "ids, limits and keys live in this process only: they end with it, and other processes have their own";

/**
 * Opens the store that `--kv` names; without a name the database that Deno keeps for the program, or the application's own on
 * Deno Deploy. Where this Deno has no KV, or no database is attached, it is the memory, and the log says so.
 *
 * @param path A file, a URL, or `:memory:`.
 * @throws {TypeError} If what was named cannot be opened.
 */
export async function openStore(path: string | undefined, log: Log): Promise<Store> {
  if (path === ":memory:") return memoryStore();
  if (!("openKv" in Deno)) return unnamed(path, log, "this Deno has no KV; --unstable-kv brings it");
  if (path !== undefined) return kvStore(await openNamed(path));
  try {
    return kvStore(await Deno.openKv());
  } catch (error) {
    return unnamed(path, log, `no database could be opened (${reasonOf(error)}); --kv names one`);
  }
}

function unnamed(path: string | undefined, log: Log, why: string): Store {
  if (path !== undefined) throw new TypeError(`Cannot open --kv "${path}": ${why}`);
  log.warn("rep.store.memory", { detail: `${why}. Until then, ${LOST}` });
  return memoryStore();
}

async function openNamed(path: string): Promise<Deno.Kv> {
  const missing = missingPermission(path);
  if (missing !== undefined) throw new TypeError(`Cannot open --kv "${path}": expected ${missing}`);
  try {
    return await Deno.openKv(path);
  } catch (cause) {
    throw new TypeError(`Cannot open --kv "${path}": ${reasonOf(cause)}`, { cause });
  }
}

/** Opening would stop and prompt for it. */
function missingPermission(path: string): string | undefined {
  if (/^https?:/.test(path)) {
    return isGranted({ name: "env", variable: "DENO_KV_ACCESS_TOKEN" })
      ? undefined
      : "--allow-env=DENO_KV_ACCESS_TOKEN";
  }
  if (!isGranted({ name: "read", path })) return `--allow-read=${path}`;
  return isGranted({ name: "write", path }) ? undefined : `--allow-write=${path}`;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
