import { contentType } from "@std/media-types/content-type";
import { extname } from "@std/path/extname";
import { type Coding, CODINGS } from "../../coding/content_coding.ts";
import { isHashedName } from "./hashed_name.ts";
import { resolveBelow, type ResolvedFile, resolvePath } from "./resolve_path.ts";

/** A compressed variant next to a file: `app.js.br`. */
export interface Variant extends ResolvedFile {
  readonly coding: Coding["name"];
}

/** A file that was found for a request. */
export interface FoundFile extends ResolvedFile {
  /** The media type, with its charset. */
  readonly type: string;
  readonly cacheControl: string;
  /** Whether the configuration is inserted into it. */
  readonly isPage: boolean;
  /** The compressed variants; those of a page are not used. */
  readonly variants: readonly Variant[];
}

/** The cache control of a file that never changes: one year, the longest time in common use. */
const IMMUTABLE = "public, max-age=31536000, immutable";

/**
 * Finds a file and its compressed variants.
 *
 * @param names The requested names. They determine the media type, even if a link leads to a file with another name.
 * @returns `undefined` if there is no such file, or it must not be served.
 */
export async function findFile(directory: string, names: readonly string[]): Promise<FoundFile | undefined> {
  const resolved = await resolvePath(directory, names);
  if (resolved.kind !== "file") return undefined;
  const name = names.at(-1) ?? "";
  const type = contentType(extname(name)) ?? "application/octet-stream";
  const isPage = type.startsWith("text/html");
  const cacheControl = !isPage && isHashedName(name) ? IMMUTABLE : "no-cache";
  const variants = isPage ? [] : await findVariants(resolved.file.root, names);
  return { ...resolved.file, type, isPage, cacheControl, variants };
}

async function findVariants(root: string, names: readonly string[]): Promise<Variant[]> {
  const parents = names.slice(0, -1);
  const lookups = CODINGS.map(async ({ name, suffix }): Promise<Variant[]> => {
    const resolved = await resolveBelow(root, [...parents, `${names.at(-1)}${suffix}`]);
    return resolved.kind === "file" ? [{ ...resolved.file, coding: name }] : [];
  });
  return (await Promise.all(lookups)).flat();
}

/** Returns the headers of the file that do not depend on its version. */
export function fileHeaders({ type, cacheControl }: FoundFile): Record<string, string> {
  return { "content-type": type, "cache-control": cacheControl, "x-content-type-options": "nosniff" };
}
