/** Why a proxied request or response fails because of the upstream. */
export const UPSTREAM_FAILURES = [
  "timeout",
  "unreachable",
  "broken_body",
] as const;

/** One of {@linkcode UPSTREAM_FAILURES}. */
export type UpstreamFailure = (typeof UPSTREAM_FAILURES)[number];

/**
 * The error in which the body of a proxied response ends if the upstream's body broke off or is invalid. The proxy has
 * logged it. The stack has one line, since `Deno.serve` prints it if the server has no `onError`.
 */
export class BrokenBodyError extends Error {
  override name = "BrokenBodyError";

  constructor(message: string) {
    super(message);
    this.stack = `${this.name}: ${message}`;
  }
}
