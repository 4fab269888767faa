import { corsHeaders, type OriginQuestion } from "./http/origin.ts";
import { methodNotAllowed, Problem } from "./http/problem.ts";
import type { Hub } from "./events/hub.ts";
import type { Tail } from "./events/tail.ts";

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
 *   live ones. A cursor that means nothing is answered with the whole public state.
 */
export async function handleChanges(
  request: Request,
  question: OriginQuestion,
  options: ChangesOptions,
): Promise<Response> {
  const { hotReload, hub, tail } = options;
  const headers = corsHeaders(question);
  if (!hotReload) throw new Problem(404, { detail: "Hot reload is not enabled", headers });
  if (request.method === "OPTIONS") return preflight(headers);
  if (request.method !== "GET") throw methodNotAllowed(request.method, METHODS, headers);
  for (const [name, value] of STREAM_HEADERS) headers.set(name, value);
  return new Response(hub.subscribe(await readCursor(request, tail)), { headers });
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

async function readCursor(request: Request, tail: Tail): Promise<number | "state" | undefined> {
  const text = request.headers.get("last-event-id") || new URL(request.url).searchParams.get("last_event_id");
  if (text === null || text === "") return undefined;
  if (!CURSOR.test(text)) return "state";
  const cursor = Number(text);
  if (cursor > tail.head) await lookAgain(tail); // another process may have given it out a moment ago
  return cursor > tail.head ? "state" : cursor;
}

async function lookAgain(tail: Tail): Promise<void> {
  try {
    await tail.follow();
  } catch {
    // The store does not answer, as the log says. The whole state, which is what follows, is right in any case.
  }
}
