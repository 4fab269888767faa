import { assertEquals, assertRejects } from "@std/assert";
import { readAll } from "../../../src/content/static/open_file.ts";
import type { RegularFile } from "../../../src/content/static/regular_file.ts";

/** A file with this text that had another size when it was opened. Each read returns at most three bytes. */
function fileOf(text: string, size: number): RegularFile {
  const bytes = new TextEncoder().encode(text);
  return {
    size,
    mtime: null,
    version: "1",
    isSettled: true,
    isRecent: false,
    read: (position, size) => Promise.resolve(bytes.slice(position, position + Math.min(size, 3))),
    close() {},
  };
}

Deno.test("readAll() reads a file in as many parts as it takes", async () => {
  assertEquals(new TextDecoder().decode(await readAll(fileOf("12345678", 8))), "12345678");
});

Deno.test("readAll() reads a file that has grown up to the size that it had", async () => {
  assertEquals(new TextDecoder().decode(await readAll(fileOf("12345678", 4))), "1234");
});

Deno.test("readAll() rejects a file that was truncated", async () => {
  await assertRejects(() => readAll(fileOf("12345678", 9)), Deno.errors.UnexpectedEof);
});
