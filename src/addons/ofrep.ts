import {
  Compressor,
  Representations,
} from "../content/coding/representations.ts";
import type { Addon, AddonParts } from "../core/addon.ts";
import { isMapping } from "../core/config/variables/quote.ts";
import type { Client } from "../core/http/client_address.ts";
import { corsHeaders, preflight, readOrigin } from "../core/http/origin.ts";
import { Problem } from "../core/http/problem.ts";
import {
  type Endpoint,
  type Handler,
  notFound,
  type RouteContext,
  type RouteTable,
} from "../core/http/routes.ts";
import { ifNoneMatchFails } from "../core/http/send.ts";
import { type PageValues, streamPath } from "../core/pages/config_script.ts";
import { shortHash, sriHash } from "../core/values/hash.ts";
import { parseJson } from "../core/values/parse_json.ts";
import { toUtf8 } from "../core/values/utf8.ts";
import { parseEventId, readNewEvents } from "../core/changes/known_events.ts";

/** What the endpoints see of the gateway. */
type OfrepParts = Pick<
  AddonParts,
  "basePath" | "transfers" | "configuration" | "changes" | "pageValues"
>;

const METHODS: readonly string[] = ["POST", "OPTIONS"];
const FLAGS_PATH = "/ofrep/v1/evaluate/flags";

const EXPOSED_HEADERS = "etag, retry-after";
const UNCACHED = { "cache-control": "no-store" };

/** A page that has been hidden for this time closes its stream until it is shown again. */
const INACTIVITY_S = 10;

/** Returns the add-on that serves the PUBLIC variables as flags. */
export function ofrep(allowedOrigins: readonly string[]): Addon {
  return (parts) => ({ routes: createOfrepEndpoints(parts, allowedOrigins) });
}

/**
 * Creates the endpoints of the OpenFeature Remote Evaluation Protocol (OFREP, `service/openapi.yaml` of
 * open-feature/protocol). Flags are the PUBLIC variables, with the values of pages. All clients get the same, so the
 * context of a request, which is its body, is not used.
 *
 * @param allowedOrigins The origins whose scripts may read the flags, besides the gateway's own.
 */
export function createOfrepEndpoints(
  parts: OfrepParts,
  allowedOrigins: readonly string[],
): RouteTable {
  const getFlags = cachedFlags(parts);
  return {
    [FLAGS_PATH]: createEndpoint(
      allowedOrigins,
      async (request, { url, client }) => {
        const parameters = new URLSearchParams(url.search);
        // An SDK repeats the `etag` of a message in the stream, which is the id of an event, not the `ETag` of flags.
        const cursor = parseEventId(parameters.get("flagConfigEtag") ?? "");
        return await sendFlags(request, client, cursor, getFlags, parts);
      },
    ),
    [`${FLAGS_PATH}/*`]: createEndpoint(
      allowedOrigins,
      (_, { url }) => {
        const key = keyOf(url.path, parts.basePath);
        const value = parts.pageValues().values.public.get(key);
        if (value !== undefined) {
          const flag = toFlag(key, value, parts);
          return Response.json(flag, { headers: UNCACHED });
        }
        const failure = {
          key,
          errorCode: "FLAG_NOT_FOUND",
          errorDetails: "Cannot find a PUBLIC variable of this name",
        };
        return Response.json(failure, { status: 404, headers: UNCACHED });
      },
    ),
    "/ofrep/*": { handler: notFound },
  };
}

/**
 * Adds to a handler what every endpoint needs: the headers for scripts of other origins, and the preflight. No body is
 * used.
 */
function createEndpoint(
  allowedOrigins: readonly string[],
  handler: Handler,
): Endpoint {
  const headersFor = (request: Request, context: RouteContext) =>
    corsHeaders(readOrigin(request, context, allowedOrigins));
  return {
    methods: METHODS,
    headersOf405: headersFor,
    async handler(request, context) {
      await discardBody(request);
      if (request.method === "OPTIONS") {
        const origin = readOrigin(request, context, allowedOrigins);
        return preflight(request, origin, "POST");
      }
      const response = await respondWith(handler, request, context);
      const headers = new Headers(headersFor(request, context));
      headers.forEach((value, name) => response.headers.append(name, value));
      response.headers.set("access-control-expose-headers", EXPOSED_HEADERS);
      return response;
    },
  };
}

/** Responds to a request. A problem takes the form of OFREP, since scripts read the response. */
async function respondWith(
  handler: Handler,
  request: Request,
  context: RouteContext,
): Promise<Response> {
  try {
    return await handler(request, context);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const { status, message } = error;
    const headers = new Headers(error.headers);
    headers.set("content-type", "application/json");
    const failure = { errorCode: "GENERAL", errorDetails: message };
    return Response.json(failure, { status, headers });
  }
}

function keyOf(path: string, basePath: string): string {
  const key = path.slice(`${basePath}${FLAGS_PATH}/`.length);
  try {
    return decodeURIComponent(key);
  } catch {
    return key; // no variable has such a name
  }
}

/**
 * Has the server discard the body, while the response is sent: the connection can be used again once the body has ended.
 * Reading it, to wait for its end, would keep up to 187 KiB for each body, and Deno cannot end a read that waits.
 */
async function discardBody({ body }: Request): Promise<void> {
  try {
    await body?.cancel();
  } catch {
    // The client has left.
  }
}

/** All flags, ready to be sent. */
interface Flags {
  /** The same for each content coding, and whatever a client has received before. */
  readonly etag: string;
  readonly representations: Representations;
}

/** Returns the flags for a client that asks now. */
type GetFlags = () => Promise<Flags>;

/**
 * Sends all flags, or 304. Another replica may have announced a change to the client that this process has not read
 * yet. With older flags, the client would go back in time, and never hear of the change again. So this process reads
 * new events before it responds if the client names an event that is unknown here, or names none and has other flags.
 *
 * @param cursor The event that made the client ask again, which is the `etag` in the stream.
 * @throws {Problem} 503 if that event cannot be read, 429 or 503 if too many responses are being sent.
 */
async function sendFlags(
  { method, headers }: Request,
  client: Client,
  cursor: number | undefined,
  getFlags: GetFlags,
  { changes, transfers }: OfrepParts,
): Promise<Response> {
  const tail = changes?.tail;
  let flags = await getFlags();
  const hasOthers = headers.has("if-none-match") &&
    !ifNoneMatchFails(headers, flags.etag);
  if (tail !== undefined) {
    const isBehind = cursor === undefined ? hasOthers : cursor > tail.head;
    const isRead = !isBehind || await readNewEvents(tail);
    if (!isRead && cursor !== undefined && !tail.hasReached(cursor)) {
      const detail = "The store is unavailable; try again later";
      throw new Problem(503, { detail });
    }
    if (isBehind) flags = await getFlags();
  }
  const { etag, representations } = flags;
  const representation = representations.select(headers);
  const response = ifNoneMatchFails(headers, etag)
    ? new Response(null, { status: 304, headers: UNCACHED })
    : await transfers.sendCounted({ method, headers }, representation, client);
  response.headers.set("etag", etag);
  return response;
}

/** Returns a function that renders all flags once for the values of a snapshot and a cursor. */
function cachedFlags(parts: OfrepParts): GetFlags {
  const compressor = new Compressor();
  let cached: PageValues & { flags: Promise<Flags> } | undefined;
  return () => {
    const page = parts.pageValues();
    if (cached?.values !== page.values || cached.cursor !== page.cursor) {
      cached = { ...page, flags: renderFlags(page, parts, compressor) };
    }
    return cached.flags;
  };
}

/** The `ETag` is a digest of everything except the cursor: an SDK whose stream begins earlier gets nothing twice. */
async function renderFlags(
  { values, cursor }: PageValues,
  parts: OfrepParts,
  compressor: Compressor,
): Promise<Flags> {
  const sorted = [...values.public].sort(([a], [b]) => a < b ? -1 : 1);
  const flags = sorted.map(([key, value]) => toFlag(key, value, parts));
  const { basePath, changes } = parts;
  const hasStream = changes !== undefined;
  const digest = await sriHash(JSON.stringify({ flags, hasStream, basePath }));
  const etag = `W/"${shortHash(digest)}"`; // weak: the same flags may come with another cursor
  const path = await streamPath(cursor, { basePath, public: values.public });
  const eventStreams = [{
    type: "sse",
    endpoint: { requestUri: `${path}&format=ofrep` },
    inactivityDelaySec: INACTIVITY_S,
  }];
  const json = JSON.stringify(hasStream ? { flags, eventStreams } : { flags });
  const headers = { "content-type": "application/json", ...UNCACHED };
  const body = toUtf8(json);
  const resource = { isHtml: false, headers, compressor, sharesBytes: false };
  const original = { coding: "identity", body, etag: undefined } as const;
  return { etag, representations: new Representations(resource, original) };
}

/** Returns an evaluated flag in the form of OFREP. */
function toFlag(key: string, value: string, { configuration }: OfrepParts) {
  const type = configuration.snapshot.describe(key)?.type;
  return { key, value: typedValue(value, type), reason: "STATIC" };
}

/**
 * Returns a value in its type. During a rollout, the text may be from a deployment with another manifest: a value that
 * does not fit the type stays text. OFREP supports objects but not arrays, so arrays stay text as well.
 */
function typedValue(text: string, type: string | undefined): unknown {
  switch (type) {
    case "boolean": {
      const lower = text.toLowerCase();
      return lower === "true" || (lower === "false" ? false : text);
    }
    case "number": {
      const number = text.trim() === "" ? NaN : Number(text);
      return Number.isFinite(number) ? number : text;
    }
    case "json": {
      const value = parseJson(text); // of another manifest, where it may be no JSON
      return isMapping(value) ? value : text;
    }
    default:
      return text;
  }
}
