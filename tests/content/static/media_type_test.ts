import { assertEquals } from "@std/assert";
import { contentType } from "@std/media-types/content-type";
import { mediaTypeOf } from "../../../src/content/static/static_content.ts";

/** Every extension that could be a page's, and some that could not. */
const EXTENSIONS = [
  "html",
  "htm",
  "shtml",
  "HTML",
  "xhtml",
  "xht",
  "phtml",
  "hta",
  "txt",
  "js",
  "svg",
  "xml",
  "htmlx",
];

Deno.test("mediaTypeOf() returns what @std/media-types says, for HTML without loading it", async () => {
  const types = await Promise.all(
    EXTENSIONS.map((extension) => mediaTypeOf(`a.b.${extension}`)),
  );
  assertEquals(
    types,
    EXTENSIONS.map((extension) =>
      contentType(`.${extension}`) ?? "application/octet-stream"
    ),
  );
});

Deno.test("mediaTypeOf() does not know the type of a file without an extension, or with an unknown one", async () => {
  const types = await Promise.all(
    ["README", "html", "a.unknown", "a."].map(mediaTypeOf),
  );
  assertEquals(types, Array(4).fill("application/octet-stream"));
});
