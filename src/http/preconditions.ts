/** What tells one state of a representation from another. */
export interface Validators {
  /** A strong entity tag, quotes included. */
  etag: string | undefined;
  lastModified: Date | undefined;
}

/** The three forms that a date may have (RFC 9110 §5.6.7); the last one names no zone and means GMT. */
const IMF_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;
const RFC850_DATE = /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/;
const ASCTIME_DATE = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;

/**
 * Decides whether a GET or HEAD has to be answered without the representation, in the order of RFC 9110 §13.2.2.
 *
 * The lists of tags are compared here and not by `@std/http/etag`, which takes seconds for a header of 60 KB of spaces.
 *
 * @returns The status of that answer, or nothing if the representation is to be sent.
 */
export function failedPrecondition(headers: Headers, validators: Validators): 304 | 412 | undefined {
  if (isOutdated(headers, validators)) return 412;
  if (isKnown(headers, validators)) return 304;
  return undefined;
}

/** Tells whether a `Range` counts: if there is an `If-Range`, only for the very same state (RFC 9110 §13.1.5). */
export function ifRangeHolds(headers: Headers, { etag, lastModified }: Validators): boolean {
  const condition = headers.get("if-range");
  if (condition === null) return true;
  return condition === etag || condition === lastModified?.toUTCString();
}

/** `If-Match` and, only without it, `If-Unmodified-Since`. */
function isOutdated(headers: Headers, { etag, lastModified }: Validators): boolean {
  const tags = headers.get("if-match");
  if (tags !== null) return !hasTag(tags, (tag) => tag === etag);
  const since = httpDate(headers.get("if-unmodified-since"));
  return since !== undefined && lastModified !== undefined && wholeSeconds(lastModified) > since;
}

/** `If-None-Match` and, only without it, `If-Modified-Since`. */
function isKnown(headers: Headers, { etag, lastModified }: Validators): boolean {
  const tags = headers.get("if-none-match");
  if (tags !== null) return hasTag(tags, (tag) => tag.replace(/^W\//, "") === etag);
  const since = httpDate(headers.get("if-modified-since"));
  return since !== undefined && lastModified !== undefined && wholeSeconds(lastModified) <= since;
}

function hasTag(list: string, isOurs: (tag: string) => boolean): boolean {
  return list.trim() === "*" || list.split(",").some((tag) => isOurs(tag.trim()));
}

/** Milliseconds since the epoch; nothing for what is not a date, which counts as not sent (RFC 9110 §13.1.3). */
function httpDate(text: string | null): number | undefined {
  if (text === null) return undefined;
  const zone = ASCTIME_DATE.test(text) ? " GMT" : "";
  if (zone === "" && !IMF_DATE.test(text) && !RFC850_DATE.test(text)) return undefined;
  const milliseconds = Date.parse(text + zone);
  return Number.isNaN(milliseconds) ? undefined : milliseconds;
}

/** A date in a header has no fractions, a file's time has. */
function wholeSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1000) * 1000;
}
