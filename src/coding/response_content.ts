import type { BodyContent } from "../http/send.ts";

/**
 * A response that is not created yet, or a `Response`. Deno 2.9 copies the body and the headers of a `Response` when it
 * is created: so a page is created once, when it is finished.
 */
export interface ResponseContent {
  readonly status: number;
  readonly statusText?: string;
  readonly headers: Headers;
  /** Bytes must not be changed. */
  readonly body: BodyContent;
  /** Returns the error in which the body ends if it cannot be decoded. @default {a `TypeError`} */
  readonly toDecodingError?: (error: unknown) => Error;
}

/** Creates the response if it is not created yet. */
export function createResponse(content: ResponseContent): Response {
  return content instanceof Response
    ? content
    : new Response(content.body, content);
}
