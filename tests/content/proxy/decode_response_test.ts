import { assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { BrokenBodyError } from "../../../src/content/proxy/upstream_failure.ts";
import { decodeResponse } from "../../../src/content/proxy/decode_response.ts";

const GZIP = { headers: { "content-encoding": "gzip" } };

function gzip(text: string): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
}

/** Decodes a response, and records the errors that are reported. */
function decode(response: Response, errors: string[] = []): Response {
  return decodeResponse(response, ({ message }) => errors.push(message));
}

Deno.test("decodeResponse() decodes the body", async () => {
  const errors: string[] = [];
  const init = { status: 404, statusText: "Gone fishing", headers: { ...GZIP.headers, "x-own": "kept" } };
  const decoded = decode(new Response(gzip("text"), init), errors);
  assertEquals([decoded.status, decoded.statusText], [404, "Gone fishing"]);
  assertEquals([...decoded.headers], [["x-own", "kept"]]);
  assertEquals([await decoded.text(), errors], ["text", []]);
});

Deno.test("decodeResponse() returns a response without a supported coding as it is, and one without a body", () => {
  for (const headers of [{}, { "content-encoding": "x-own" }]) {
    const response = new Response("text", { headers });
    assertStrictEquals(decode(response), response);
  }
  assertEquals(decode(new Response(null, GZIP)).body, null);
});

Deno.test("decodeResponse() ends an invalid body in an error, and reports it once", async () => {
  const errors: string[] = [];
  const decoded = decode(new Response("not a gzip stream", GZIP), errors);
  const { message } = await assertRejects(() => decoded.text(), BrokenBodyError, "Cannot decode the body: ");
  assertEquals(errors, [message]);
});

Deno.test("decodeResponse() does not report a body that broke off", async () => {
  const errors: string[] = [];
  const body = new ReadableStream({ pull: (controller) => controller.error(new BrokenBodyError("aborted")) });
  await assertRejects(() => decode(new Response(body, GZIP), errors).text(), BrokenBodyError, "aborted");
  assertEquals(errors, []);
});

Deno.test("decodeResponse() cancels the original body", async () => {
  const cancelled = Promise.withResolvers<unknown>();
  const body = new ReadableStream({ cancel: cancelled.resolve });
  await decode(new Response(body, GZIP)).body?.cancel("disconnected");
  assertEquals(await cancelled.promise, "disconnected");
});
