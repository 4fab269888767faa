import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { upstreamResponse } from "../../src/proxy/upstream_response.ts";

/** A message without a network; it is told when to give what. */
function message(statusCode: number, rawHeaders: string[] = []): IncomingMessage & Readable {
  return Object.assign(new Readable({ read() {} }), { statusCode, rawHeaders }) as never;
}

function response(from: IncomingMessage, broken: string[] = [], method = "GET"): Response {
  return upstreamResponse(from, { method, onBroken: ({ message }) => broken.push(message) });
}

const CHUNK = new Uint8Array(40_000);

Deno.test("upstreamResponse() reads no further ahead than 64 KiB, and on when that is taken", async () => {
  const from = message(200);
  const reader = response(from).body!.getReader();
  for (let i = 0; i < 4; i++) from.push(CHUNK);
  await new Promise(setImmediate);
  assertEquals([from.isPaused(), from.readableLength], [true, 80_000]);
  for (let i = 0; i < 4; i++) assertEquals((await reader.read()).value, CHUNK);
  await new Promise(setImmediate);
  assertEquals(from.isPaused(), false);
  await reader.cancel();
  assertEquals(from.destroyed, true);
});

Deno.test("upstreamResponse() makes a message that breaks off an error of the body, once", async () => {
  const broken: string[] = [];
  const from = message(200);
  const { body } = response(from, broken);
  from.destroy(new Error("aborted"));
  await assertRejects(() => new Response(body).bytes(), Error, "aborted");
  assertEquals(broken, ["aborted"]);
});

Deno.test("upstreamResponse() makes a message that closes without a word an error of the body, too", async () => {
  const broken: string[] = [];
  const from = message(200);
  const { body } = response(from, broken);
  from.destroy();
  await assertRejects(() => new Response(body).bytes(), Error, "The connection was closed before the body's end");
  assertEquals(broken, ["The connection was closed before the body's end"]);
});

Deno.test("upstreamResponse() does not call it broken when the reader leaves", async () => {
  const broken: string[] = [];
  const from = message(200);
  await response(from, broken).body?.cancel();
  from.destroy(new Error("aborted"));
  await new Promise(setImmediate);
  assertEquals(broken, []);
});

Deno.test("upstreamResponse() keeps every header but those of the connection", async () => {
  const answer = response(message(404, ["Set-Cookie", "a=1", "set-cookie", "b=2", "Connection", "close", "X", "\xe9"]));
  await answer.body?.cancel();
  assertEquals([...answer.headers], [["set-cookie", "a=1"], ["set-cookie", "b=2"], ["x", "\xe9"]]);
  assertEquals(answer.status, 404);
});

Deno.test("upstreamResponse() gives no body where there is none", () => {
  for (const status of [204, 205, 304]) assertEquals(response(message(status)).body, null);
  assertEquals(response(message(200), [], "HEAD").body, null);
});

Deno.test("upstreamResponse() does not mind what becomes of a message whose body nobody gets", async () => {
  const from = message(205);
  assertEquals(response(from).status, 205);
  from.destroy(new Error("aborted"));
  await new Promise(setImmediate);
  assertEquals(from.destroyed, true);
});

Deno.test("upstreamResponse() refuses a status and a header that are none", () => {
  for (const status of [0, 99, 600, 999]) assertThrows(() => response(message(status)), RangeError);
  assertThrows(() => response(message(200, ["bad name", "x"])), TypeError);
});
