import {
  assertEquals,
  assertNotStrictEquals,
  assertStrictEquals,
} from "@std/assert";
import { send } from "../../../src/core/http/send.ts";
import { sharedBody } from "../../../src/core/http/shared_body.ts";

const BYTES = new TextEncoder().encode("shared".repeat(1_000));
const HEADERS = { "content-type": "text/plain", "etag": '"1"' };

/** Returns the memory of the first chunk of a response. */
async function memoryOf(response: Response): Promise<ArrayBufferLike> {
  const reader = response.body!.getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return value!.buffer;
}

/** Sends a body as the representation of a file. */
function sendShared(headers: HeadersInit = {}, status = 200, method = "GET") {
  const request = { method, headers: new Headers(headers) };
  return send(request, {
    isHtml: false,
    status,
    headers: HEADERS,
    etag: '"1"',
    body: BODY,
  });
}

const BODY = sharedBody(BYTES, HEADERS);

Deno.test("sharedBody() lets all responses send the same memory, which is not that of the original", async () => {
  const body = sharedBody(BYTES, HEADERS);
  const memories = [];
  for (let sent = 0; sent < 3; sent++) {
    memories.push(await memoryOf(body.respond()));
  }
  assertStrictEquals(memories[1], memories[0]);
  assertStrictEquals(memories[2], memories[0]);
  assertNotStrictEquals(memories[0], BYTES.buffer);
});

Deno.test("send() and bytes() leave the memory shared: none of them looks at the body of the template", async () => {
  const before = await memoryOf(await sendShared());
  await BODY.bytes();
  await (await sendShared({}, 404)).bytes();
  await (await sendShared({ range: "bytes=1-3" })).bytes();
  await sendShared({}, 200, "HEAD");
  await sendShared({ "if-none-match": '"1"' });
  assertStrictEquals(await memoryOf(await sendShared()), before);
});

Deno.test("send() sends a shared body as any other: whole, a range, with another status, to HEAD, as 304", async () => {
  const whole = await sendShared();
  assertEquals([whole.status, [...whole.headers], await whole.bytes()], [
    200,
    Object.entries(HEADERS),
    BYTES,
  ]);
  const part = await sendShared({ range: "bytes=1-3" });
  assertEquals([part.status, await part.text()], [206, "har"]);
  const missing = await sendShared({}, 404);
  assertEquals([missing.status, await missing.bytes()], [404, BYTES]);
  const head = await sendShared({}, 200, "HEAD");
  assertEquals([head.status, await head.text()], [200, ""]);
  const known = await sendShared({ "if-none-match": '"1"' });
  assertEquals([known.status, await known.text()], [304, ""]);
});

Deno.test("a header that is set on one response is not on another", async () => {
  const response = await sendShared();
  response.headers.set("etag", '"2"');
  const next = await sendShared();
  assertEquals([next.headers.get("etag"), await next.bytes()], ['"1"', BYTES]);
});
