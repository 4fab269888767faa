import { assertEquals, assertRejects } from "@std/assert";
import { requestBody } from "../../../src/content/proxy/request_body.ts";
import { systemClock } from "../../../src/values/clock.ts";

function streamOf(...parts: string[]): ReadableStream<Uint8Array<ArrayBuffer>> {
  return ReadableStream.from(parts).pipeThrough(new TextEncoderStream());
}

async function chunksOf(
  headers: HeadersInit,
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
) {
  const result = await requestBody(
    new Request("http://host/", { method: "DELETE", headers, body }),
    systemClock,
  );
  if (result === null) return null;
  const chunks = await Array.fromAsync(result);
  return chunks.map((chunk) => new TextDecoder().decode(chunk));
}

Deno.test("requestBody() returns null if nothing follows the headers", async () => {
  assertEquals(await chunksOf({}, null), null);
  assertEquals(await chunksOf({}, streamOf()), null);
  assertEquals(
    await chunksOf({}, ReadableStream.from([new Uint8Array()])),
    null,
  ); // as from Deno.serve
  assertEquals(await chunksOf({ "content-length": "0" }, streamOf()), null);
});

Deno.test("requestBody() returns all chunks, whether the headers announce a body or not", async () => {
  assertEquals(await chunksOf({}, streamOf("a", "b", "c")), ["a", "b", "c"]);
  assertEquals(await chunksOf({ "content-length": "2" }, streamOf("a", "b")), [
    "a",
    "b",
  ]);
  assertEquals(
    await chunksOf({ "transfer-encoding": "chunked" }, streamOf("a", "b")),
    ["a", "b"],
  );
  assertEquals(
    await chunksOf({ "transfer-encoding": "chunked" }, streamOf()),
    [],
  );
});

Deno.test("requestBody() does not wait for a body that the headers announce", async () => {
  const pending = new ReadableStream<Uint8Array<ArrayBuffer>>();
  const init = {
    method: "POST",
    headers: { "transfer-encoding": "chunked" },
    body: pending,
  };
  await requestBody(new Request("http://host/", init), systemClock);
});

Deno.test("requestBody() forwards an error of the body", async () => {
  const broken = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => controller.error(new Error("gone")),
  });
  await assertRejects(() => chunksOf({}, broken), Error, "gone");
});

Deno.test("requestBody() rejects a body without a length that ends because its request was reset", async () => {
  for (const parts of [[], ["a"]]) {
    const controller = new AbortController();
    const init = {
      method: "POST",
      body: streamOf(...parts),
      signal: controller.signal,
    };
    const request = new Request("http://host/", init);
    setTimeout(() => controller.abort(), 1); // after the end of the body, as Deno.serve does
    await assertRejects(
      async () => {
        const body = await requestBody(request, systemClock);
        await Array.fromAsync(body ?? []);
      },
      DOMException,
      "aborted",
    );
  }
});
