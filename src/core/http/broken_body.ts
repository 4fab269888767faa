/**
 * The error of a body that ends early through no fault of the gateway: the upstream's body broke off or is invalid,
 * which the proxy has logged, or the client does not read. The stack has only one line, since `Deno.serve` prints it if
 * the server has no `onError`. This file imports nothing, because the code that listens, which is loaded first, needs it.
 */
export class BrokenBodyError extends Error {
  override name = "BrokenBodyError";

  constructor(message: string) {
    super(message);
    this.stack = `${this.name}: ${message}`;
  }
}
