import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import {
  createResponse,
  type ResponseContent,
} from "../../../src/pages/page.ts";
import { upstreamResponse } from "../../../src/content/proxy/upstream_response.ts";
import { Transfers } from "../../../src/content/transfers.ts";
import { silentLog } from "../../../src/observe/log.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

/** A message without a network. The test pushes its chunks. */
function message(
  statusCode: number,
  rawHeaders: string[] = [],
): IncomingMessage & Readable {
  return Object.assign(new Readable({ read() {} }), {
    statusCode,
    rawHeaders,
  }) as never;
}

/** Converts a message, and records how its body ends. */
function received(
  from: IncomingMessage,
  ends: (string | undefined)[] = [],
  method = "GET",
): ResponseContent {
  const transfers = new Transfers({
    clock: new FakeClock(),
    log: silentLog,
    maxTransfers: 10,
  });
  const transfer = transfers.begin({ address: "", clientKey: "" });
  return upstreamResponse(from, {
    method,
    transfer,
    onEnd: (error) => ends.push(error?.message),
  });
}

function response(...args: Parameters<typeof received>): Response {
  return createResponse(received(...args));
}

const CHUNK = new Uint8Array(40_000);

Deno.test("upstreamResponse() reads at most 64 KiB ahead, and continues when they are read", async () => {
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

Deno.test("upstreamResponse() needs no stream for a body that arrived with the headers", async () => {
  const ends: (string | undefined)[] = [];
  const from = message(200, ["Content-Length", "3"]);
  for (const text of ["ab", "c", null]) from.push(text);
  const hasEnded = new Promise((resolve) => from.on("end", resolve));
  const content = received(Object.assign(from, { complete: true }), ends);
  assertEquals(content.body, new TextEncoder().encode("abc"));
  const complete = createResponse(content);
  assertEquals([...complete.headers], [["content-length", "3"]]);
  await hasEnded; // the agent then reuses the connection
  assertEquals([await complete.text(), ends], ["abc", [undefined]]);
});

Deno.test("upstreamResponse() streams a body that is larger than 64 KiB, or has not arrived as a whole", () => {
  const large = message(200);
  for (const chunk of [CHUNK, CHUNK, null]) large.push(chunk);
  const incomplete = message(200);
  incomplete.push("ab");
  for (const from of [Object.assign(large, { complete: true }), incomplete]) {
    assertEquals(received(from).body instanceof ReadableStream, true);
    from.destroy();
  }
});

Deno.test("upstreamResponse() ends the body in an error if the message breaks off, and reports it once", async () => {
  const ends: (string | undefined)[] = [];
  const from = message(200);
  const { body } = response(from, ends);
  from.destroy(new Error("aborted"));
  await assertRejects(() => new Response(body).bytes(), Error, "aborted");
  assertEquals(ends, ["aborted"]);
});

Deno.test("upstreamResponse() ends the body in an error if the message closes before its end", async () => {
  const ends: (string | undefined)[] = [];
  const from = message(200);
  const { body } = response(from, ends);
  from.destroy();
  await assertRejects(
    () => new Response(body).bytes(),
    Error,
    "The connection was closed before the end of the body",
  );
  assertEquals(ends, ["The connection was closed before the end of the body"]);
});

Deno.test("upstreamResponse() reports no error if the body is cancelled", async () => {
  const ends: (string | undefined)[] = [];
  const from = message(200);
  await response(from, ends).body?.cancel();
  from.destroy(new Error("aborted"));
  await new Promise(setImmediate);
  assertEquals(ends, [undefined]);
});

Deno.test("upstreamResponse() reports the end of a body, and of a response without one", async () => {
  const ends: (string | undefined)[] = [];
  const from = message(200);
  const { body } = response(from, ends);
  from.push(CHUNK);
  await new Promise(setImmediate);
  assertEquals(ends, []);
  from.push(null);
  assertEquals(await new Response(body).bytes(), CHUNK);
  assertEquals(ends, [undefined]);
  response(message(204), ends);
  assertEquals(ends, [undefined, undefined]);
});

Deno.test("upstreamResponse() keeps all end-to-end headers", async () => {
  const result = response(
    message(404, [
      "Set-Cookie",
      "a=1",
      "set-cookie",
      "b=2",
      "Connection",
      "close",
      "X",
      "\xe9",
    ]),
  );
  await result.body?.cancel();
  assertEquals([...result.headers], [["set-cookie", "a=1"], [
    "set-cookie",
    "b=2",
  ], ["x", "\xe9"]]);
  assertEquals(result.status, 404);
});

Deno.test("upstreamResponse() returns no body for a null body status, and for HEAD", () => {
  for (const status of [204, 205, 304]) {
    assertEquals(response(message(status)).body, null);
  }
  assertEquals(response(message(200), [], "HEAD").body, null);
});

Deno.test("upstreamResponse() ignores errors of a message without a body", async () => {
  const from = message(204);
  assertEquals(response(from).status, 204);
  from.destroy(new Error("aborted"));
  await new Promise(setImmediate);
  assertEquals(from.destroyed, true);
});

Deno.test("upstreamResponse() rejects an invalid status or header", () => {
  for (const status of [0, 99, 600, 999]) {
    assertThrows(() => response(message(status)), RangeError);
  }
  assertThrows(() => response(message(200, ["bad name", "x"])), TypeError);
});
