import { type Clock, systemClock } from "../clock.ts";
import type { Log } from "../log.ts";
import { isGranted } from "../permissions.ts";
import { kvStore } from "./kv.ts";
import { memoryStore } from "./memory.ts";
import { openRemoteStore } from "./remote.ts";
import { type Store, StoreUnavailableError } from "./store.ts";

/** Settings of {@linkcode openStore}. */
export interface OpenStoreOptions {
  /** The time. @default {the real one} */
  clock?: Clock;
  /** From 0 to below 1, for pauses. @default {Math.random} */
  random?: () => number;
}

/** What the memory store cannot do, for the log. */
const LOST = "ids, limits and keys live in this process only: they end with it, and other processes have their own";

/**
 * Opens the store that `--kv` names; without a name the database that Deno keeps for the program, or the application's own on
 * Deno Deploy. Where this Deno has no KV, or no database is attached, it is the memory, and the log says so.
 *
 * A server that does not answer is no reason not to start: the log says so, its operations fail, and connecting to it is tried
 * again. So it is when the connection is lost later on.
 *
 * @param path A file, a URL, or `:memory:`.
 * @throws {TypeError} If what was named cannot be opened; of a server, if it refuses us or is no KV server at all.
 */
export async function openStore(path: string | undefined, log: Log, options: OpenStoreOptions = {}): Promise<Store> {
  if (path === ":memory:") return memoryStore();
  if (!("openKv" in Deno)) return unnamed(path, log, "this Deno has no KV; --unstable-kv brings it");
  if (path !== undefined) return isUrl(path) ? await openServer(path, log, options) : kvStore(await openNamed(path));
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

async function openServer(url: string, log: Log, options: OpenStoreOptions): Promise<Store> {
  const { clock = systemClock, random = Math.random } = options;
  const open = async () => kvStore(await openNamed(url));
  return await openRemoteStore({ open, mayPass, clock, random });

  function mayPass(error: unknown): boolean {
    if (!isOutage(error)) return false;
    log.warn("rep.store.unreachable", { detail: `connecting is tried again: ${reasonOf(error)}` });
    return true;
  }
}

/** Deno has one class for all that can go wrong: what its message says is all there is to tell them apart. */
function isOutage(error: unknown): boolean {
  if (error instanceof StoreUnavailableError) return true; // it took too long
  return /failed to connect to|timed out|responded with status (429|5\d\d)/.test(reasonOf(error));
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
export function missingPermission(path: string): string | undefined {
  if (isUrl(path)) {
    return isGranted({ name: "env", variable: "DENO_KV_ACCESS_TOKEN" })
      ? undefined
      : "--allow-env=DENO_KV_ACCESS_TOKEN";
  }
  if (!isGranted({ name: "read", path })) return `--allow-read=${path}`;
  return isGranted({ name: "write", path }) ? undefined : `--allow-write=${path}`;
}

function isUrl(path: string): boolean {
  return /^https?:/.test(path);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
