import { corsHeaders, type OriginContext } from "../http/origin.ts";
import { methodNotAllowed, Problem } from "../http/problem.ts";
import type { Hub } from "../events/hub.ts";
import type { Tail } from "../events/tail.ts";

/** Options of {@linkcode handleChanges}. */
interface ChangesOptions {
  /** Whether the endpoint exists. */
  hotReload: boolean;
  hub: Hub;
  tail: Tail;
}

const METHODS = ["GET", "OPTIONS"];

/**
 * Handles `GET /rep/changes`: a stream of changes to PUBLIC variables (spec, GET /rep/changes; HTML standard §9.2).
 *
 * - 404 without hot reload, 405 for other methods. In all other cases the response is a stream, since an `EventSource`
 *   does not reconnect after any status but 200.
 * - The cursor is the `Last-Event-ID` header, else `?last_event_id=`, else now. The stream replays every event after
 *   it, in order, and continues with live ones. For an invalid cursor it begins with the whole public state. If only
 *   the store could validate the cursor, and it is unavailable, the stream ends at once and asks the client to
 *   reconnect.
 *
 * @throws {Problem} 404 or 405.
 */
export async function handleChanges(
  request: Request,
  originContext: OriginContext,
  options: ChangesOptions,
): Promise<Response> {
  const { hotReload, hub, tail } = options;
  const headers = corsHeaders(originContext);
  if (!hotReload) throw new Problem(404, { detail: "Hot reload is not enabled", headers });
  if (request.method === "OPTIONS") return preflight(headers);
  if (request.method !== "GET") throw methodNotAllowed(request.method, METHODS, headers);
  for (const [name, value] of STREAM_HEADERS) headers.set(name, value);
  const cursor = await readCursor(request, tail);
  // Not the public state, which may be older in this process than what the client has.
  const stream = cursor === "unknown" ? hub.refuse("store_unavailable") : hub.subscribe(cursor);
  return new Response(stream, { headers });
}

/** `no-transform` and `X-Accel-Buffering` keep proxies from buffering the stream. */
const STREAM_HEADERS = [
  ["content-type", "text/event-stream"],
  ["cache-control", "no-cache, no-store, no-transform"],
  ["x-accel-buffering", "no"],
] as const;

/** For clients other than `EventSource`: a `Last-Event-ID` that a script sets requires a preflight. */
function preflight(headers: Headers): Response {
  if (headers.has("access-control-allow-origin")) {
    headers.set("access-control-allow-methods", "GET");
    headers.set("access-control-allow-headers", "last-event-id, cache-control");
    headers.set("access-control-max-age", "600");
  }
  headers.set("allow", METHODS.join(", "));
  return new Response(null, { status: 204, headers });
}

/** Event ids are safe integers. */
const CURSOR = /^\d{1,15}$/;

/**
 * Reads the cursor of a request.
 *
 * @returns The cursor; `undefined` without one; `"state"` for an invalid one; `"unknown"` if the store would have to
 * validate it, but is unavailable.
 */
async function readCursor(request: Request, tail: Tail): Promise<number | "state" | "unknown" | undefined> {
  const text = request.headers.get("last-event-id") || new URL(request.url).searchParams.get("last_event_id");
  if (text === null || text === "") return undefined;
  if (!CURSOR.test(text)) return "state";
  const cursor = Number(text);
  const isUpToDate = cursor <= tail.head || await readNew(tail); // another process may have just issued it
  if (cursor <= tail.head) return cursor;
  return isUpToDate ? "state" : "unknown";
}

/** Reads the newest events, and returns whether the store was available. */
async function readNew(tail: Tail): Promise<boolean> {
  try {
    await tail.readNew();
    return true;
  } catch {
    return false; // the circuit breaker logs the error
  }
}
