import { copyHeaders } from "../http/copy_headers.ts";
import { headResponse } from "../http/head_response.ts";
import {
  failedPrecondition,
  ifNoneMatchFails,
  ifRangeHolds,
} from "../http/preconditions.ts";
import { Problem } from "../http/problem.ts";
import { andThen } from "../values/and_then.ts";
import { type ByteRange, parseByteRange } from "./byte_range.ts";
import type { Body, Representation, StreamedBody } from "./representations.ts";

/** The part of a request that determines how a representation is sent. */
export interface SendRequest {
  readonly method: string;
  readonly headers: Headers;
}

/**
 * Sends a representation, in memory or streamed: the one place that decides about preconditions (RFC 9110 §13), ranges
 * (§14) and HEAD. A range refers to the bytes that are sent, compressed or not.
 *
 * @throws {Problem} 412 or 416.
 */
export function send(
  request: SendRequest,
  representation: Representation,
): Response | Promise<Response> {
  const { headers, body } = representation;
  const failed = preconditionStatus(request, representation);
  if (failed === 304) {
    return withoutBody(body, {
      status: 304,
      headers: notModifiedHeaders(headers),
    });
  }
  if (failed === 412) {
    throw new Problem(412, {
      detail: "Cannot send the file: a precondition of the request failed",
    });
  }
  if (request.method === "HEAD") {
    return headResponse(withoutBody(body, representation));
  }
  const range = requestedRange(request, representation);
  if (range !== undefined) return sendRange(representation, range);
  return andThen(
    read(body),
    (content) => new Response(content, representation),
  );
}

/** Only `If-None-Match` applies to a page: the others refer to what it was made of. */
function preconditionStatus(
  { method, headers }: SendRequest,
  { isPage, status = 200, validators }: Representation,
) {
  if (!isPage) return failedPrecondition(headers, validators);
  const isRead = status === 200 && (method === "GET" || method === "HEAD") &&
    validators.etag !== undefined;
  return isRead && ifNoneMatchFails(headers, validators.etag) ? 304 : undefined;
}

/** Cancels the body, which would otherwise keep its file or its connection open. */
function withoutBody(body: Body, init: ResponseInit): Response {
  if (!isInMemory(body)) body.cancel();
  return new Response(null, init);
}

function read(
  body: Body,
  range?: ByteRange,
): BodyInit | null | Promise<BodyInit | null> {
  if (!isInMemory(body)) return body.read(range);
  if (range === undefined) return body;
  return typeof body === "string"
    ? body.slice(range.start, range.end)
    : body.subarray(range.start, range.end);
}

function isInMemory(body: Body): body is Exclude<Body, StreamedBody> {
  return typeof body === "string" || body instanceof Uint8Array;
}

/**
 * Removes the headers that a 304 does not have (RFC 9110 §15.4.5). A Content Security Policy stays: it replaces that of
 * the stored page.
 */
function notModifiedHeaders(headers: Representation["headers"]): HeadersInit {
  if (headers instanceof Headers) return copyHeaders(headers, isInNotModified);
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => isInNotModified(name)),
  );
}

function isInNotModified(name: string): boolean {
  return name !== "accept-ranges" && !/^content-(?!security-policy)/.test(name);
}

function requestedRange(
  { method, headers }: SendRequest,
  { isPage, body, validators }: Representation,
) {
  if (isPage || method !== "GET") return undefined; // RFC 9110 §14.2
  const header = headers.get("range");
  if (header === null || !ifRangeHolds(headers, validators)) return undefined;
  const size = body.length ?? 0;
  const range = parseByteRange(header, size);
  if (range !== "unsatisfiable") return range;
  const detail = `Cannot send the range "${
    header.slice(0, 100)
  }": expected one within ${size} bytes`;
  throw new Problem(416, {
    detail,
    headers: { "content-range": `bytes */${size}` },
  });
}

function sendRange(
  { headers, body }: Representation,
  range: ByteRange,
): Response | Promise<Response> {
  const { start, end } = range;
  const rangeHeaders = new Headers(headers);
  rangeHeaders.set("content-range", `bytes ${start}-${end - 1}/${body.length}`);
  rangeHeaders.set("content-length", `${end - start}`);
  return andThen(
    read(body, range),
    (content) => new Response(content, { status: 206, headers: rangeHeaders }),
  );
}
