/** What {@linkcode Client.getSecure} rejects with: the message says why, and what would help. */
export class REPError extends Error {
  /** `"REPError"`, also where class names are minified. */
  override name = "REPError";
}
