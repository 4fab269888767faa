import { STATUS_TEXT, type StatusCode } from "@std/http/status";

interface ProblemOptions {
  /** One sentence for developers of clients. It must not contain internal errors. */
  detail: string;
  /** Additional headers of the response. `Cache-Control` is `no-store` by default. */
  headers?: HeadersInit | undefined;
}

/**
 * The reason why a request is rejected. Handlers throw it; {@linkcode problemResponse} turns it into
 * `application/problem+json` (RFC 9457).
 */
export class Problem extends Error {
  override name = "Problem";
  readonly status: StatusCode;
  /** Those of the response. They are put together once, for a problem that is thrown again and again. */
  readonly headers: Headers;

  constructor(status: StatusCode, { detail, headers }: ProblemOptions) {
    super(detail);
    this.status = status;
    this.headers = new Headers(headers);
    this.headers.set("content-type", PROBLEM_TYPE);
    if (!this.headers.has("cache-control")) {
      this.headers.set("cache-control", "no-store");
    }
  }
}

/** The media type of {@linkcode problemBody}. */
export const PROBLEM_TYPE = "application/problem+json";

/** Returns the response for a problem. Without a `type`, the status defines the problem (RFC 9457 §4.2.1). */
export function problemResponse(
  { status, message, headers }: Problem,
): Response {
  return new Response(problemBody(status, message), { status, headers });
}

/** Returns the body of a problem. */
export function problemBody(status: StatusCode, detail: string): string {
  return JSON.stringify({ title: STATUS_TEXT[status], status, detail });
}

/** Returns the problem of a method that is not supported at a path (RFC 9110 §15.5.6). */
export function methodNotAllowed(
  method: string,
  allow: readonly string[],
  headers?: HeadersInit,
): Problem {
  const all = new Headers(headers);
  all.set("allow", allow.join(", "));
  const shown = method.slice(0, 20);
  const expected = allow.join(" or ");
  const detail = `Cannot use method ${shown} here: expected ${expected}`;
  return new Problem(405, { detail, headers: all });
}
