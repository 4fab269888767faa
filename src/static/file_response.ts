import { parseByteRange } from "./byte_range.ts";
import { type Coding, CODINGS, preferredCoding } from "./content_coding.ts";
import { resolvePath } from "./resolve_path.ts";
import { isHashedName } from "./hashed_name.ts";
import { type OpenFile, openFile } from "./open_file.ts";
import { failedPrecondition, ifRangeHolds, type Validators } from "../http/preconditions.ts";
import { Problem } from "../http/problem.ts";

/** A file that answers a request. */
export interface FoundFile {
  /** The names by which it was asked for: they say what it is, wherever a link may lead. */
  names: readonly string[];
  /** Where it really is. */
  path: string;
  /** The media type, with its charset. */
  type: string;
}

/** What an asset's response depends on beside the request and the file. */
export interface AssetContext {
  /** The directory that is served, to look there for compressed files. */
  directory: string;
  /** The time, in milliseconds since the epoch. */
  now: number;
}

/** A year, the longest that caches are asked to keep anything. */
const FOR_EVER = "public, max-age=31536000, immutable";

/**
 * The response with a page: always 200 and always whole, whatever the conditions, for the layer that puts the
 * configuration into it and that answers conditional requests itself.
 */
export async function pageResponse(request: Request, { path, type }: FoundFile): Promise<Response> {
  using file = await openFile(path);
  const headers = baseHeaders(type, "no-cache");
  if (file.etag) headers.set("etag", file.etag);
  return wholeResponse(request, file, headers);
}

/**
 * The response with anything else: with conditional requests (RFC 9110 §13), single ranges (§14), and the `.br` or
 * `.gz` file that lies beside it. A range counts the bytes that are sent, be they compressed or not.
 *
 * @throws {Problem} 412 and 416.
 */
export async function assetResponse(request: Request, found: FoundFile, context: AssetContext): Promise<Response> {
  const variants = await findVariants(found.names, context.directory);
  const variant = chooseVariant(request.headers, variants);
  using file = await openFile(variant?.path ?? found.path);
  const validators = validatorsOf(file, variant?.coding, context.now);
  const headers = assetHeaders(found, validators);
  if (variants.length > 0) headers.set("vary", "Accept-Encoding");
  const failed = failedPrecondition(request.headers, validators);
  if (failed === 412) throw new Problem(412, { detail: "Cannot send the file: it is not in the state asked for" });
  if (failed === 304) return new Response(null, { status: 304, headers });
  headers.set("accept-ranges", "bytes");
  if (variant) headers.set("content-encoding", variant.coding.name);
  return rangeResponse(request, file, { headers, validators });
}

/** A file that is another one, compressed. */
interface Variant {
  coding: Coding;
  path: string;
}

async function findVariants(names: readonly string[], directory: string): Promise<Variant[]> {
  const above = names.slice(0, -1);
  const lookups = CODINGS.map(async (coding) => {
    const entry = await resolvePath(directory, [...above, `${names.at(-1)}${coding.suffix}`]);
    return entry.kind === "file" ? [{ coding, path: entry.path }] : [];
  });
  return (await Promise.all(lookups)).flat();
}

function chooseVariant(headers: Headers, variants: readonly Variant[]): Variant | undefined {
  const coding = preferredCoding(headers, variants.map((variant) => variant.coding));
  return variants.find((variant) => variant.coding === coding);
}

function validatorsOf({ etag, mtime }: OpenFile, coding: Coding | undefined, now: number): Validators {
  return {
    etag: coding ? etag?.replace(/"$/, `-${coding.name}"`) : etag, // RFC 9110 §8.8.3.3: each coding has its own
    lastModified: mtime ? new Date(Math.min(mtime.getTime(), now)) : undefined, // §8.8.2.1: never from the future
  };
}

function assetHeaders({ names, type }: FoundFile, { etag, lastModified }: Validators): Headers {
  const headers = baseHeaders(type, isHashedName(names.at(-1) ?? "") ? FOR_EVER : "no-cache");
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
  const asked = request.headers.get("range");
  const counts = asked !== null && request.method === "GET" && ifRangeHolds(request.headers, validators); // §14.2
  const range = counts ? parseByteRange(asked, file.size) : undefined;
  if (range === undefined) return wholeResponse(request, file, headers);
  if (range === "unsatisfiable") {
    const detail = `Cannot send the range "${asked?.slice(0, 100)}": expected one within ${file.size} bytes`;
    throw new Problem(416, { detail, headers: { "content-range": `bytes */${file.size}` } });
  }
  headers.set("content-range", `bytes ${range.start}-${range.end - 1}/${file.size}`);
  headers.set("content-length", `${range.end - range.start}`);
  return new Response(file.body(range), { status: 206, headers });
}

function wholeResponse({ method }: Request, file: OpenFile, headers: Headers): Response {
  headers.set("content-length", `${file.size}`);
  const body = method === "HEAD" ? null : file.body({ start: 0, end: file.size });
  return new Response(body, { headers });
}
