import { STATUS_TEXT, type StatusCode } from "@std/http/status";

/** What a refused request is told beside its status. */
export interface ProblemOptions {
  /** One sentence for the person who debugs the client. */
  detail: string;
  headers?: HeadersInit | undefined;
}

/**
 * A request that cannot be answered as asked. Handlers throw it; {@linkcode problemResponse} turns it into
 * `application/problem+json` (RFC 9457).
 */
export class Problem extends Error {
  override name = "Problem";
  readonly status: StatusCode;
  readonly headers: Headers;

  constructor(status: StatusCode, { detail, headers }: ProblemOptions) {
    super(detail);
    this.status = status;
    this.headers = new Headers(headers);
  }
}

/** The response for a {@linkcode Problem}. `type` is left out: RFC 9457 §4.2.1 reads that as "see the status". */
export function problemResponse({ status, message, headers }: Problem): Response {
  const all = new Headers(headers);
  all.set("content-type", "application/problem+json");
  if (!all.has("cache-control")) all.set("cache-control", "no-store");
  const body = JSON.stringify({ title: STATUS_TEXT[status], status, detail: message });
  return new Response(body, { status, headers: all });
}

/** The problem of a method that a path does not have (RFC 9110 §15.5.6). */
export function methodNotAllowed(method: string, allow: readonly string[], headers?: HeadersInit) {
  const all = new Headers(headers);
  all.set("allow", allow.join(", "));
  const shown = method.slice(0, 20);
  const detail = `Cannot ${shown} here: expected ${allow.join(", ")}`;
  return new Problem(405, { detail, headers: all });
}
