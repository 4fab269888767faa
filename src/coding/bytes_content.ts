/**
 * A response that is not created yet, whose whole body is known. Deno 2.9 copies the body and the headers of a `Response`
 * when it is created: so a page is created once, when it is finished.
 */
export class BytesContent {
  readonly status: number;
  readonly headers: Headers;
  /** The body. It must not be changed. */
  readonly content: Uint8Array<ArrayBuffer>;

  constructor(content: Uint8Array<ArrayBuffer>, { status, headers }: { status: number; headers: Headers }) {
    this.content = content;
    this.status = status;
    this.headers = headers;
  }
}

/** Creates the response if it is not created yet. */
export function createResponse(response: Response | BytesContent): Response {
  if (!(response instanceof BytesContent)) return response;
  const { content, status, headers } = response;
  return new Response(content, { status, headers });
}
