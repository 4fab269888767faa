import { eTag } from "@std/http/etag";
import type { Representation } from "../../coding/representations.ts";
import type { FoundFile } from "./found_file.ts";
import { readAll } from "./open_file.ts";
import { openRegularFile, type RegularFile } from "./regular_file.ts";
import type { ResolvedFile } from "./resolve_path.ts";

/** The bytes of a file or of a compressed variant. */
export interface FileContent {
  readonly coding: Representation["coding"];
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly mtime: Date | null;
  /** A hash of the content. Size and time would not distinguish its versions: see `openFile()`. */
  readonly etag: string | undefined;
  readonly path: string;
  readonly version: string;
  readonly isSettled: boolean;
  readonly isRecent: boolean;
}

/** A file and its compressed variants in memory. */
export interface FileContents {
  readonly file: FileContent;
  readonly variants: readonly FileContent[];
}

/**
 * Reads a file and its variants into memory. A variant that must not be read is left out: the file itself can be sent.
 *
 * @returns `undefined` if one of them is larger than `maxBytes`.
 * @throws {Deno.errors.NotFound} If one of them does not exist any more. Other errors are those of `openRegularFile()`.
 */
export async function readContents(found: FoundFile, maxBytes: number): Promise<FileContents | undefined> {
  const file = await readContent(found, "identity", maxBytes);
  const reading = found.variants.map((variant) =>
    readContent(variant, variant.coding, maxBytes).catch(ignoreUnreadable)
  );
  const variants = (await Promise.all(reading)).filter((variant) => variant !== "unreadable");
  return file && variants.every((variant) => variant !== undefined) ? { file, variants } : undefined;
}

function ignoreUnreadable(error: unknown): "unreadable" {
  if (error instanceof Deno.errors.PermissionDenied) return "unreadable";
  throw error;
}

async function readContent(
  { path, root }: ResolvedFile,
  coding: FileContent["coding"],
  maxBytes: number,
): Promise<FileContent | undefined> {
  const file = await openRegularFile(path, root);
  try {
    return file.size > maxBytes ? undefined : await describe(file, path, coding);
  } finally {
    file.close();
  }
}

async function describe(file: RegularFile, path: string, coding: FileContent["coding"]): Promise<FileContent> {
  const { mtime, version, isSettled, isRecent } = file;
  const bytes = await readAll(file);
  return { path, coding, bytes, mtime, etag: await eTag(bytes), version, isSettled, isRecent };
}
