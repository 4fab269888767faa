import { assertEquals, assertRejects } from "@std/assert";
import { gunzipSync } from "node:zlib";
import { encodeContent } from "../../src/coding/encode_content.ts";

const nextTurn = () => new Promise<void>((resolve) => setTimeout(resolve, 0));

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

const GZIP = {
  method: "GET",
  headers: new Headers({ "accept-encoding": "gzip" }),
};

Deno.test("encodeContent() encodes a large body with bounded memory: it reads only on demand", async () => {
  let chunks = 0;
  const pull = (
    controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>,
  ) => {
    chunks++;
    controller.enqueue(crypto.getRandomValues(new Uint8Array(65_536)));
  };
  const body = new ReadableStream({ pull, cancel() {} }, { highWaterMark: 0 });
  const reader = encodeContent(new Response(body), GZIP, "gzip").body!
    .getReader();
  await reader.read();
  assertEquals(chunks < 5, true);
  await reader.cancel();
  await nextTurn(); // a pause of the encoder ends
});

Deno.test("encodeContent() cancels the body if the result is cancelled", async () => {
  let reason: unknown;
  const body = new ReadableStream({ cancel: (value) => void (reason = value) });
  await encodeContent(new Response(body), GZIP, "gzip").body?.cancel("left");
  assertEquals(reason, "left");
});

Deno.test("encodeContent() forwards an error of the body", async () => {
  const body = new ReadableStream({
    pull: (controller) => controller.error(new Error("broken")),
  });
  await assertRejects(
    () => encodeContent(new Response(body), GZIP, "gzip").text(),
    Error,
    "broken",
  );
});

Deno.test("encodeContent() keeps status and headers, without the length of the decoded body", async () => {
  const headers = {
    "content-length": "5",
    "etag": 'W/"a"',
    "vary": "accept-encoding",
  };
  const original = { status: 404, statusText: "Gone fishing", headers };
  const response = encodeContent(new Response("hello", original), GZIP, "br");
  const bytes = await response.bytes();
  const { status, statusText } = response;
  assertEquals([
    status,
    statusText,
    new TextDecoder().decode(gunzipSync(bytes)),
  ], [404, "Gone fishing", "hello"]);
  const empty = encodeContent(new Response(null, original), GZIP, "br");
  assertEquals([empty.status, empty.statusText], [404, "Gone fishing"]);
  assertEquals(Object.fromEntries(response.headers), {
    "content-encoding": "gzip",
    "content-type": "text/plain;charset=UTF-8",
    "etag": 'W/"a"',
    "vary": "accept-encoding",
  });
});

Deno.test("encodeContent() lets other work run while it encodes a large body that is in memory", async () => {
  const chunk = new Uint8Array(64 * 1024);
  let [chunks, turns] = [64, 0];
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull: (controller) =>
      chunks-- > 0 ? controller.enqueue(chunk) : controller.close(),
  });
  const request = {
    method: "GET",
    headers: new Headers({ "accept-encoding": "br" }),
  };
  const encoded = encodeContent(new Response(body), request, "br");
  const counting = setInterval(() => turns++, 0);
  await encoded.bytes();
  clearInterval(counting);
  assertEquals(turns >= 16, true, `${turns} turns`);
});
