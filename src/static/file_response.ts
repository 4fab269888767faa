import { failedPrecondition, ifRangeHolds, type Validators } from "../http/preconditions.ts";
import { Problem } from "../http/problem.ts";
import { parseByteRange } from "./byte_range.ts";
import { type Coding, CODINGS, preferredCoding } from "./content_coding.ts";
import { isHashedName } from "./hashed_name.ts";
import { type OpenFile, openFile } from "./open_file.ts";
import { resolvePath } from "./resolve_path.ts";

/** A file that was found for a request. */
export interface FoundFile {
  /** The requested names. They determine the media type, even if a link leads to a file with another name. */
  names: readonly string[];
  /** The real path. */
  path: string;
  /** The real path of the served directory. */
  root: string;
  /** The media type, with its charset. */
  type: string;
}

/** What the response with an asset depends on, besides the request and the file. */
interface AssetContext {
  /** The served directory, which may contain compressed variants of the file. */
  directory: string;
  /** The time, in milliseconds since the Unix epoch. */
  now: number;
}

/** The cache control of a file that never changes: one year, the longest time in common use. */
const IMMUTABLE = "public, max-age=31536000, immutable";

/**
 * Returns the response with a page. It is always 200 and complete: the caller inserts the configuration, and evaluates
 * conditional requests itself.
 */
export async function pageResponse(request: Request, { path, root, type }: FoundFile): Promise<Response> {
  using file = await openFile(path, root);
  const headers = baseHeaders(type, "no-cache");
  if (file.etag) headers.set("etag", file.etag);
  return completeResponse(request, file, headers);
}

/**
 * Returns the response with any other file. It supports conditional requests (RFC 9110 §13), single ranges (§14), and
 * compressed variants (`.br`, `.gz`) next to the file. A range refers to the bytes that are sent, compressed or not.
 *
 * @throws {Problem} 412 or 416.
 */
export async function assetResponse(request: Request, found: FoundFile, context: AssetContext): Promise<Response> {
  const variants = await findVariants(found.names, context.directory);
  const variant = selectVariant(request.headers, variants);
  const { path, root } = variant ?? found;
  using file = await openFile(path, root);
  const validators = validatorsOf(file, variant?.coding, context.now);
  const headers = assetHeaders(found, validators);
  if (variants.length > 0) headers.set("vary", "Accept-Encoding");
  const failed = failedPrecondition(request.headers, validators);
  if (failed === 412) throw new Problem(412, { detail: "Cannot send the file: a precondition of the request failed" });
  if (failed === 304) return new Response(null, { status: 304, headers });
  headers.set("accept-ranges", "bytes");
  if (variant) headers.set("content-encoding", variant.coding.name);
  return rangeResponse(request, file, { headers, validators });
}

/** A compressed variant of a file. */
interface Variant {
  coding: Coding;
  path: string;
  root: string;
}

async function findVariants(names: readonly string[], directory: string): Promise<Variant[]> {
  const parents = names.slice(0, -1);
  const lookups = CODINGS.map(async (coding) => {
    const resolved = await resolvePath(directory, [...parents, `${names.at(-1)}${coding.suffix}`]);
    return resolved.kind === "file" ? [{ coding, path: resolved.path, root: resolved.root }] : [];
  });
  return (await Promise.all(lookups)).flat();
}

function selectVariant(headers: Headers, variants: readonly Variant[]): Variant | undefined {
  const coding = preferredCoding(headers, variants.map((variant) => variant.coding));
  return variants.find((variant) => variant.coding === coding);
}

function validatorsOf({ etag, mtime }: OpenFile, coding: Coding | undefined, now: number): Validators {
  return {
    etag: coding ? etag?.replace(/"$/, `-${coding.name}"`) : etag, // RFC 9110 §8.8.3.3: different for each coding
    lastModified: mtime ? new Date(Math.min(mtime.getTime(), now)) : undefined, // §8.8.2.1: never in the future
  };
}

function assetHeaders({ names, type }: FoundFile, { etag, lastModified }: Validators): Headers {
  const headers = baseHeaders(type, isHashedName(names.at(-1) ?? "") ? IMMUTABLE : "no-cache");
  if (etag) headers.set("etag", etag);
  if (lastModified) headers.set("last-modified", lastModified.toUTCString());
  return headers;
}

function baseHeaders(type: string, cacheControl: string): Headers {
  return new Headers({ "content-type": type, "cache-control": cacheControl, "x-content-type-options": "nosniff" });
}

interface RangeContext {
  headers: Headers;
  validators: Validators;
}

function rangeResponse(request: Request, file: OpenFile, { headers, validators }: RangeContext): Response {
  const header = request.headers.get("range");
  const applies = header !== null && request.method === "GET" && ifRangeHolds(request.headers, validators); // §14.2
  const range = applies ? parseByteRange(header, file.size) : undefined;
  if (range === undefined) return completeResponse(request, file, headers);
  if (range === "unsatisfiable") {
    const detail = `Cannot send the range "${header?.slice(0, 100)}": expected one within ${file.size} bytes`;
    throw new Problem(416, { detail, headers: { "content-range": `bytes */${file.size}` } });
  }
  headers.set("content-range", `bytes ${range.start}-${range.end - 1}/${file.size}`);
  headers.set("content-length", `${range.end - range.start}`);
  return new Response(file.body(range), { status: 206, headers });
}

function completeResponse({ method }: Request, file: OpenFile, headers: Headers): Response {
  headers.set("content-length", `${file.size}`);
  const body = method === "HEAD" ? null : file.body({ start: 0, end: file.size });
  return new Response(body, { headers });
}
