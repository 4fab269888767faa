import type { Clock } from "../values/clock.ts";
import type { Log } from "./log.ts";

/** What the access log says about a request. */
interface AccessEntry {
  readonly method: string;
  /** Without the query, which may contain secrets; `undefined` if the URL is invalid. */
  readonly path: string | undefined;
  /** The client's address. */
  readonly address: string;
  /** The time of the monotonic clock. */
  readonly startedAt: number;
}

/** The maximum length of a method or a path in the log; a path can have 60,000 characters. */
const MAX_LENGTH = 1_000;

/**
 * Logs a request at the moment its response begins. A stream of changes is logged when it is opened, not when it ends.
 */
export function logAccess(
  entry: AccessEntry,
  response: Response,
  { log, clock }: { log: Log; clock: Clock },
): void {
  log.info("rep.request", {
    method: entry.method.slice(0, MAX_LENGTH),
    path: entry.path?.slice(0, MAX_LENGTH),
    status: response.status,
    duration_ms: Math.round(clock.monotonic() - entry.startedAt),
    bytes: bytesOf(entry, response),
    client_ip: entry.address,
  });
}

/** Returns the size of the body, if a header says it: Deno makes a stream of a body that is looked at. */
function bytesOf(
  { method }: AccessEntry,
  { headers }: Response,
): number | undefined {
  if (method === "HEAD") return 0;
  const length = headers.get("content-length");
  return length === null ? undefined : Number(length);
}
