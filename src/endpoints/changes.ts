import { corsHeaders, type OriginContext } from "../http/origin.ts";
import { methodNotAllowed, Problem } from "../http/problem.ts";
import { type Hub, STORE_UNAVAILABLE } from "../events/hub.ts";
import type { Tail } from "../events/tail.ts";

/** What `GET /rep/changes` needs. */
export interface ChangesOptions {
  /** Whether there is such an endpoint at all. */
  hotReload: boolean;
  hub: Hub;
  tail: Tail;
}

const METHODS = ["GET", "OPTIONS"];

/**
 * `GET /rep/changes`: a stream of changes to PUBLIC variables (spec, GET /rep/changes; HTML standard §9.2).
 *
 * - 404 without hot reload, 405 for other methods; a stream in every other case, since any other status ends an
 *   `EventSource` for good.
 * - The cursor is the `Last-Event-ID` header, else `?last_event_id=`, else now. Every event after it follows, in order, then
 *   live ones. A cursor that means nothing is answered with the whole public state; one of which only the store knows whether
 *   it does, while that does not answer, with the wish to come back.
 */
export async function handleChanges(
  request: Request,
  question: OriginContext,
  options: ChangesOptions,
): Promise<Response> {
  const { hotReload, hub, tail } = options;
  const headers = corsHeaders(question);
  if (!hotReload) throw new Problem(404, { detail: "Hot reload is not enabled", headers });
  if (request.method === "OPTIONS") return preflight(headers);
  if (request.method !== "GET") throw methodNotAllowed(request.method, METHODS, headers);
  for (const [name, value] of STREAM_HEADERS) headers.set(name, value);
  const cursor = await readCursor(request, tail);
  // The state as it is known here may be older than what the client has.
  const stream = cursor === "away" ? hub.refuse(STORE_UNAVAILABLE) : hub.subscribe(cursor);
  return new Response(stream, { headers });
}

/** `no-transform` and `X-Accel-Buffering` keep proxies from collecting the stream before they pass it on. */
const STREAM_HEADERS = [
  ["content-type", "text/event-stream"],
  ["cache-control", "no-cache, no-store, no-transform"],
  ["x-accel-buffering", "no"],
] as const;

/** Clients that are not an `EventSource` send `Last-Event-ID` themselves, which the browser asks about first. */
function preflight(headers: Headers): Response {
  if (headers.has("access-control-allow-origin")) {
    headers.set("access-control-allow-methods", "GET");
    headers.set("access-control-allow-headers", "last-event-id, cache-control");
    headers.set("access-control-max-age", "600");
  }
  headers.set("allow", METHODS.join(", "));
  return new Response(null, { status: 204, headers });
}

/** Ids are digits and safe integers. */
const CURSOR = /^\d{1,15}$/;

/** The newer part of the log may be what only the store knows: `"away"` is a cursor of which it cannot be told now. */
async function readCursor(request: Request, tail: Tail): Promise<number | "state" | "away" | undefined> {
  const text = request.headers.get("last-event-id") || new URL(request.url).searchParams.get("last_event_id");
  if (text === null || text === "") return undefined;
  if (!CURSOR.test(text)) return "state";
  const cursor = Number(text);
  const isSure = cursor <= tail.head || await lookAgain(tail); // another process may have given it out a moment ago
  if (cursor <= tail.head) return cursor;
  return isSure ? "state" : "away";
}

async function lookAgain(tail: Tail): Promise<boolean> {
  try {
    await tail.readNew();
    return true;
  } catch {
    return false; // the store does not answer, as the log says
  }
}
