/**
 * Copies headers, each `Set-Cookie` separately. `new Headers(headers)` is quadratic in Deno 2.9, where every step of the
 * iterator sorts all headers.
 *
 * @param isKept Selects the headers by name, which is in lower case.
 */
export function copyHeaders(
  headers: Headers,
  isKept: (name: string) => boolean = () => true,
): Headers {
  const copy = new Headers();
  headers.forEach((value, name) => {
    if (isKept(name)) copy.append(name, value);
  });
  return copy;
}
