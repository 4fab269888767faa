import { isGranted } from "../values/permissions.ts";

/** How many connections a process can have. */
export interface ConnectionBudget {
  readonly maxConnections: number;
  /** How many connections the kernel may complete before the server accepts them. */
  readonly backlog: number;
}

/** Where Linux says how many files a process may open. */
const LIMITS_FILE = "/proc/self/limits";
/** Files and sockets that are no connections of clients: the modules, the store, the event loop, watched files. */
const RESERVED = 64;
/** The most that is useful: a connection takes 15 KiB and more. */
const MAX_CONNECTIONS = 100_000;
/** Without `--allow-all`, or on another system, the limit is unknown. */
const ASSUMED_OPEN_FILES = 4_096;

/**
 * Divides the limit of open files. A server accepts everything that waits in its backlog before it closes what is too
 * much, so that twice the backlog has to remain free: without a free file descriptor, it stops accepting.
 *
 * @param openFiles As {@linkcode readOpenFileLimit} returned it.
 * @param filesPerConnection 2 if each request is proxied over a connection of its own.
 */
export function connectionBudget(openFiles = ASSUMED_OPEN_FILES, filesPerConnection: number): ConnectionBudget {
  const backlog = Math.min(511, Math.ceil(openFiles / 8));
  const available = Math.floor((openFiles - RESERVED - 2 * backlog) / filesPerConnection);
  return { backlog, maxConnections: Math.max(1, Math.min(available, MAX_CONNECTIONS)) };
}

/** Returns the number of files that this process may open; `undefined` if it is unknown. */
export function readOpenFileLimit(): number | undefined {
  if (!isGranted({ name: "read", path: LIMITS_FILE })) return undefined; // reading would prompt
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(Deno.readTextFileSync(LIMITS_FILE)) ?? [];
    return limit === undefined ? undefined : Number(limit);
  } catch {
    return undefined; // no such file, or it needs --allow-all
  }
}
