/**
 * Copies headers, each `Set-Cookie` separately. It takes 3 µs for eight headers, where `new Headers(headers)` takes
 * 44: every step of Deno's iterator sorts all headers.
 *
 * @param isKept Selects the headers by name, which is in lower case.
 */
export function copyHeaders(headers: Headers, isKept: (name: string) => boolean = () => true): Headers {
  const copy = new Headers();
  headers.forEach((value, name) => {
    if (isKept(name)) copy.append(name, value);
  });
  return copy;
}
