import { assertEquals, assertRejects } from "@std/assert";
import { requestBody } from "../../src/proxy/request_body.ts";

function streamOf(...parts: string[]): ReadableStream<Uint8Array<ArrayBuffer>> {
  return ReadableStream.from(parts).pipeThrough(new TextEncoderStream());
}

async function textOf(headers: HeadersInit, body: ReadableStream<Uint8Array<ArrayBuffer>> | null) {
  const given = await requestBody(new Request("http://host/", { method: "DELETE", headers, body }));
  return given && await Array.fromAsync(given.pipeThrough(new TextDecoderStream() as never));
}

Deno.test("requestBody() gives nothing where nothing follows the headers", async () => {
  assertEquals(await textOf({}, null), null);
  assertEquals(await textOf({}, streamOf()), null);
  assertEquals(await textOf({}, ReadableStream.from([new Uint8Array()])), null); // as Deno.serve has it
  assertEquals(await textOf({ "content-length": "0" }, streamOf()), null);
});

Deno.test("requestBody() gives all chunks, whether the headers announce them or not", async () => {
  assertEquals(await textOf({}, streamOf("a", "b", "c")), ["a", "b", "c"]);
  assertEquals(await textOf({ "content-length": "2" }, streamOf("a", "b")), ["a", "b"]);
  assertEquals(await textOf({ "transfer-encoding": "chunked" }, streamOf("a", "b")), ["a", "b"]);
  assertEquals(await textOf({ "transfer-encoding": "chunked" }, streamOf()), []);
});

Deno.test("requestBody() does not wait for a body that is announced", async () => {
  const silent = new ReadableStream<Uint8Array<ArrayBuffer>>();
  const init = { method: "POST", headers: { "transfer-encoding": "chunked" }, body: silent };
  await (await requestBody(new Request("http://host/", init)))?.cancel();
});

Deno.test("requestBody() passes an error of the body on", async () => {
  const broken = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => controller.error(new Error("gone")),
  });
  await assertRejects(() => textOf({}, broken), Error, "gone");
});
