/** The validators of the current representation (RFC 9110 §8.8). */
export interface Validators {
  /** A strong entity tag, quotes included. */
  etag: string | undefined;
  lastModified: Date | undefined;
}

/** The three formats of an HTTP date (RFC 9110 §5.6.7). The last one has no time zone and means GMT. */
const HTTP_DATES = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
];

/**
 * Evaluates the preconditions of a GET or HEAD request in the order of RFC 9110 §13.2.2.
 *
 * @returns The status to respond with if a precondition fails; `undefined` if the representation is to be sent.
 */
export function failedPrecondition(
  headers: Headers,
  validators: Validators,
): 304 | 412 | undefined {
  if (isChanged(headers, validators)) return 412;
  if (isUnchanged(headers, validators)) return 304;
  return undefined;
}

/**
 * Returns whether `If-None-Match` is sent and false: it lists the current entity tag, by weak comparison, or is `*`
 * (RFC 9110 §13.1.2). The response to GET and HEAD is then 304.
 *
 * @param etag The current entity tag, weak or strong, quotes included. It must not contain a comma.
 */
export function ifNoneMatchFails(
  headers: Headers,
  etag: string | undefined,
): boolean {
  const current = etag && withoutWeakness(etag);
  const header = headers.get("if-none-match");
  return listsTag(header, (tag) => withoutWeakness(tag) === current);
}

/**
 * Returns whether `Range` applies: without `If-Range`, or if that names this very representation (RFC 9110 §13.1.5).
 */
export function ifRangeHolds(
  headers: Headers,
  { etag, lastModified }: Validators,
): boolean {
  const condition = headers.get("if-range");
  if (condition === null) return true;
  return condition === etag || condition === lastModified?.toUTCString();
}

/** Evaluates `If-Match` or, only if that is absent, `If-Unmodified-Since`. */
function isChanged(
  headers: Headers,
  { etag, lastModified }: Validators,
): boolean {
  const ifMatch = headers.get("if-match"); // Deno reads a single header faster than it looks whether there is one
  if (ifMatch !== null) return !listsTag(ifMatch, (tag) => tag === etag);
  const since = parseHttpDate(headers.get("if-unmodified-since"));
  if (since === undefined || lastModified === undefined) return false;
  return toWholeSeconds(lastModified) > since;
}

/** Evaluates `If-None-Match` or, only if that is absent, `If-Modified-Since`. */
function isUnchanged(
  headers: Headers,
  { etag, lastModified }: Validators,
): boolean {
  if (headers.get("if-none-match") !== null) {
    return ifNoneMatchFails(headers, etag);
  }
  const since = parseHttpDate(headers.get("if-modified-since"));
  if (since === undefined || lastModified === undefined) return false;
  return toWholeSeconds(lastModified) <= since;
}

/** Not done by `@std/http/etag`, which takes quadratic time for a header of spaces. */
function listsTag(
  header: string | null,
  matches: (tag: string) => boolean,
): boolean {
  if (header === null) return false;
  if (header.trim() === "*") return true;
  return header.split(",").some((tag) => matches(tag.trim()));
}

function withoutWeakness(tag: string): string {
  return tag.replace(/^W\//, "");
}

/** Returns milliseconds since the epoch; `undefined` for an invalid date, which is ignored (RFC 9110 §13.1.3). */
function parseHttpDate(text: string | null): number | undefined {
  if (text === null) return undefined;
  if (!HTTP_DATES.some((format) => format.test(text))) return undefined;
  const zone = text.endsWith("GMT") ? "" : " GMT";
  const milliseconds = Date.parse(text + zone);
  return Number.isNaN(milliseconds) ? undefined : milliseconds;
}

/** HTTP dates have no fractions of a second; file times do. */
function toWholeSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1000) * 1000;
}
