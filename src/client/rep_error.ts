/** The error of {@linkcode Client.getSecure}. The message says why and, where possible, what to do. */
export class REPError extends Error {
  /** `"REPError"`, also in minified code. */
  override name = "REPError";
}
