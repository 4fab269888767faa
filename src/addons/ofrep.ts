import {
  Compressor,
  Representations,
} from "../content/coding/representations.ts";
import type { Addon } from "../core/addon.ts";
import type { Tail } from "../core/changes/tail.ts";
import { isMapping } from "../core/config/variables/quote.ts";
import type { Transfers } from "../core/http/transfers.ts";
import type { Client } from "../core/http/client_address.ts";
import { corsHeaders, readOrigin } from "../core/http/origin.ts";
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
import type { Clock } from "../core/values/clock.ts";
import { shortHash, sriHash } from "../core/values/hash.ts";
import { parseEventId, readNewEvents } from "../core/changes/known_events.ts";

/** Options of {@linkcode createOfrepEndpoints}. */
interface OfrepOptions {
  /** Returns the values of a page that is sent now, to a client that knows an event. Its PUBLIC values are the flags. */
  readonly current: (knownId?: number) => PageValues;
  /** Returns the type that the manifest gives a variable. */
  readonly typeOf: (name: string) => string | undefined;
  /** The events that this process knows; `undefined` without hot reload. */
  readonly tail:
    | Pick<Tail, "head" | "hasReached" | "readForClient">
    | undefined;
  /** The path under which the endpoints are served: empty, or for example `/app`. */
  readonly basePath: string;
  /** The origins whose scripts may read the flags, besides the gateway's own. */
  readonly allowedOrigins: readonly string[];
  /** Counts the requests whose body is being received, and large responses. */
  readonly transfers: Transfers;
  readonly clock: Clock;
}

/** An evaluated flag in the form of OFREP. */
interface Flag {
  readonly key: string;
  readonly value: unknown;
  readonly reason: "STATIC";
}

const METHODS: readonly string[] = ["POST", "OPTIONS"];
const FLAGS_PATH = "/ofrep/v1/evaluate/flags";

const EXPOSED_HEADERS = "etag, retry-after";
const UNCACHED = { "cache-control": "no-store" };

/** The maximum size of a request's body. */
const MAX_BODY_BYTES = 64 << 10;
/** How long a body may take to arrive: as long as the SDKs wait for the whole response. */
const MAX_BODY_MS = 10_000;
/** A page that has been hidden for this time closes its stream until it is shown again. */
const INACTIVITY_S = 10;

/** What a gateway sets for OFREP. */
type OfrepSettings = Pick<
  OfrepOptions,
  "basePath" | "allowedOrigins" | "transfers" | "clock"
>;

/** Returns the add-on that serves the PUBLIC variables as flags. */
export function ofrep(settings: OfrepSettings): Addon {
  const { basePath, allowedOrigins, transfers, clock } = settings;
  return ({ configuration, changes, pageValues }) => ({
    routes: createOfrepEndpoints({
      current: pageValues,
      typeOf: (name) => configuration.snapshot.describe(name)?.type,
      tail: changes?.tail,
      basePath,
      allowedOrigins,
      transfers,
      clock,
    }),
  });
}

/**
 * Creates the endpoints of the OpenFeature Remote Evaluation Protocol (OFREP, `service/openapi.yaml` of
 * open-feature/protocol). Flags are the PUBLIC variables, with the values of pages. All clients get the same, so the
 * context of a request is checked but not used.
 */
export function createOfrepEndpoints(options: OfrepOptions): RouteTable {
  const getFlags = cachedFlags(options);
  return {
    [FLAGS_PATH]: createEndpoint(options, async (request, { url, client }) => {
      const failure = await readContext(request, client, options);
      if (failure !== undefined) return failed(400, failure);
      const parameters = new URLSearchParams(url.search);
      const cursor = parseEventId(parameters.get("flagConfigEtag") ?? "");
      return await sendFlags(request, client, cursor, getFlags, options);
    }),
    [`${FLAGS_PATH}/*`]: createEndpoint(options, async (request, context) => {
      const { url, client } = context;
      const key = keyOf(url.path, options.basePath);
      const failure = await readContext(request, client, options);
      if (failure !== undefined) return failed(400, { key, ...failure });
      const value = options.current().values.public.get(key);
      if (value !== undefined) {
        const flag = toFlag(key, value, options.typeOf);
        return Response.json(flag, { headers: UNCACHED });
      }
      return failed(404, {
        key,
        errorCode: "FLAG_NOT_FOUND",
        errorDetails: "Cannot find a PUBLIC variable of this name",
      });
    }),
    "/ofrep/*": { handler: notFound },
  };
}

/** Adds to a handler what every endpoint needs: the headers for scripts of other origins, and the preflight. */
function createEndpoint(
  { allowedOrigins }: OfrepOptions,
  handler: Handler,
): Endpoint {
  const headersFor: NonNullable<Endpoint["headersOf405"]> = (
    request,
    { client },
  ) => corsHeaders(readOrigin(request, client.origin, allowedOrigins));
  return {
    methods: METHODS,
    headersOf405: headersFor,
    async handler(request, context) {
      const response = request.method === "OPTIONS"
        ? preflight()
        : await respondWith(handler, request, context);
      const headers = new Headers(headersFor(request, context));
      headers.forEach((value, name) => response.headers.append(name, value));
      response.headers.set("access-control-expose-headers", EXPOSED_HEADERS);
      return response;
    },
  };
}

/** Responds to a request. If there are too many, it says so as OFREP does, since scripts read the response. */
async function respondWith(
  handler: Handler,
  request: Request,
  context: RouteContext,
): Promise<Response> {
  try {
    return await handler(request, context);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const { status, message, headers } = error;
    const failure = { errorCode: "GENERAL", errorDetails: message };
    const response = failed(status, failure);
    headers.forEach((value, name) => response.headers.set(name, value));
    return response;
  }
}

/** Browsers use it only if the origin may read the response. */
function preflight(): Response {
  const headers = {
    "access-control-allow-methods": "POST",
    "access-control-allow-headers":
      "content-type, authorization, x-api-key, if-none-match",
    "access-control-max-age": "600",
    "allow": METHODS.join(", "),
  };
  return new Response(null, { status: 204, headers });
}

/** Why a request fails, as OFREP names it. */
interface Failure {
  /** The flag, if the request is for a single one. */
  readonly key?: string;
  readonly errorCode: string;
  readonly errorDetails: string;
}

function failed(status: number, failure: Failure): Response {
  return Response.json(failure, { status, headers: UNCACHED });
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
 * Reads the body, so that the connection can be used again. Until it has arrived, it counts as an upload.
 *
 * @returns What is wrong with it.
 * @throws {Problem} If there are too many transfers. The body is then not read.
 */
async function readContext(
  request: Request,
  client: Client,
  { transfers, clock }: OfrepOptions,
): Promise<Failure | undefined> {
  const transfer = transfers.begin(client);
  transfer.onEnd = transfers.uploads.add();
  let body: unknown;
  try {
    body = JSON.parse(await readText(request, clock));
  } catch (error) {
    const reason = error instanceof BodyError ? error.message : "JSON";
    const errorDetails = `Cannot read the request: expected ${reason}`;
    return { errorCode: "PARSE_ERROR", errorDetails };
  } finally {
    transfer.end();
  }
  if (isMapping(body) && isMapping(body["context"])) return undefined;
  return {
    errorCode: "INVALID_CONTEXT",
    errorDetails: "Cannot use the context: expected an object",
  };
}

/** A body that is not read to its end. The message says what was expected. */
class BodyError extends Error {}

/** @throws {BodyError} If the body is too large, or arrives too slowly. */
async function readText({ body }: Request, clock: Clock): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  const cancel = () => void reader.cancel().catch(() => {}); // the client may have left, or go on sending
  let isLate = false;
  const cancelTimer = clock.after(MAX_BODY_MS, () => {
    isLate = true;
    cancel(); // an abort of `pipeThrough()` would not end the read in workerd
  }, true);
  // Kept as text: a chunk of one byte holds the 64 KiB that it was read into.
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (isLate) throw new BodyError("a body that arrives within 10 s");
      if (done) return text + decoder.decode();
      size += value.length;
      if (size > MAX_BODY_BYTES) throw new BodyError("a body of up to 64 KiB");
      text += decoder.decode(value, { stream: true });
    }
  } finally {
    cancelTimer();
    cancel();
  }
}

/** OFREP knows no precondition except `If-None-Match`, and no answer to `If-Match` or `Range`. */
const NONE = new Headers();

/** All flags, ready to be sent. */
interface Flags {
  /** The same for each content coding, and whatever a client has received before. */
  readonly etag: string;
  readonly representations: Representations;
}

/** Returns the flags for a client that knows an event. */
type GetFlags = (knownId?: number) => Promise<Flags>;

/**
 * Sends all flags, or 304. Another replica may have announced a change to the client that this process has not read
 * yet. With older flags, the client would go back in time, and never hear of the change again. So this process reads
 * new events before it responds if the client names an event that is unknown here, or names none and has other flags.
 *
 * @param cursor The event that made the client ask again, which is the `etag` in the stream.
 */
async function sendFlags(
  { method, headers }: Request,
  client: Client,
  cursor: number | undefined,
  getFlags: GetFlags,
  { tail, transfers }: OfrepOptions,
): Promise<Response> {
  let flags = await getFlags();
  const hasOthers = headers.has("if-none-match") &&
    !ifNoneMatchFails(headers, flags.etag);
  if (tail !== undefined) {
    const isBehind = cursor === undefined ? hasOthers : cursor > tail.head;
    const isRead = !isBehind || await readNewEvents(tail);
    const isKnown = cursor !== undefined && tail.hasReached(cursor);
    if (!isRead && cursor !== undefined && !isKnown) {
      const errorDetails = "The store is unavailable; try again later";
      return failed(503, { errorCode: "GENERAL", errorDetails });
    }
    if (isKnown) flags = await getFlags(cursor);
    else if (isBehind) flags = await getFlags();
  }
  const { etag, representations } = flags;
  const representation = representations.select(headers);
  const response = ifNoneMatchFails(headers, etag)
    ? new Response(null, { status: 304, headers: UNCACHED })
    : await transfers.send({ method, headers: NONE }, representation, client);
  response.headers.set("etag", etag);
  return response;
}

/** Returns a function that renders all flags once for the values of a snapshot and a cursor. */
function cachedFlags(options: OfrepOptions): GetFlags {
  const compressor = new Compressor();
  let cached: PageValues & { flags: Promise<Flags> } | undefined;
  return (knownId) => {
    const { values, cursor } = options.current(knownId);
    if (cached?.values !== values || cached.cursor !== cursor) {
      const flags = renderFlags({ values, cursor }, options, compressor);
      cached = { values, cursor, flags };
    }
    return cached.flags;
  };
}

/** The `ETag` is a digest of everything except the cursor: an SDK whose stream begins earlier gets nothing twice. */
async function renderFlags(
  { values, cursor }: PageValues,
  { typeOf, tail, basePath }: OfrepOptions,
  compressor: Compressor,
): Promise<Flags> {
  const sorted = [...values.public].sort(([a], [b]) => a < b ? -1 : 1);
  const flags = sorted.map(([key, value]) => toFlag(key, value, typeOf));
  const hasStream = tail !== undefined;
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
  const body = new TextEncoder().encode(json);
  const resource = { isHtml: false, headers, compressor };
  const original = { coding: "identity", body, etag: undefined } as const;
  return { etag, representations: new Representations(resource, original) };
}

function toFlag(
  key: string,
  value: string,
  typeOf: OfrepOptions["typeOf"],
): Flag {
  return { key, value: typedValue(value, typeOf(key)), reason: "STATIC" };
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
      const value = parseJson(text);
      return isMapping(value) ? value : text;
    }
    default:
      return text;
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // of another manifest, where it is not JSON
  }
}
