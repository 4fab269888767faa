/**
 * Formats a URL for a message, even if it is malformed: credentials, query and fragment are replaced by an ellipsis,
 * and so is what stands in the place of the port, but is no port.
 */
export function redactUrl(url: URL | string): string {
  return String(url)
    .replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/is, "$1…@") // up to the last @: a malformed password may contain any character
    .replace(
      /^([a-z][a-z0-9+.-]*:\/\/[^\s/:@[]*):(?!\d{1,5}(?:[/?#,]|$))[^/]*/i,
      "$1:…",
    )
    .replace(/[?#].*$/s, "?…");
}

/**
 * Replaces the credentials of all URLs in a text, such as an error message, by an ellipsis (RFC 3986 §3.2.1). Words in
 * their place, as in a message that says what a URL looks like, stay.
 */
export function redactCredentials(text: string): string {
  return text.replace(/:\/\/(?!USER\[:PASSWORD\]@)[^\s/?#"'()]*@/g, "://…@");
}
