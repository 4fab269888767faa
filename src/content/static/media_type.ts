/** The extensions of `text/html` in `@std/media-types`. */
const HTML = /\.(?:html|htm|shtml)$/i;

/**
 * Returns the media type of a file by its name, with its charset. The table of types is loaded for the first file that is
 * not HTML.
 */
export async function mediaTypeOf(name: string): Promise<string> {
  if (HTML.test(name)) return "text/html; charset=UTF-8";
  const { contentType } = await import("@std/media-types/content-type");
  const [extension = ""] = /\.[^.]*$/.exec(name) ?? [];
  return contentType(extension) ?? "application/octet-stream";
}
