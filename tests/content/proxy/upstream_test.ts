import { assertEquals } from "@std/assert";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { upstreamResponse } from "../../../src/content/proxy/upstream.ts";
import { Transfers } from "../../../src/core/http/transfers.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import type { ResponseContent } from "../../../src/core/pages/page.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

/** A message without a network, whose chunks have all arrived. */
function arrived(
  statusCode: number,
  chunks: readonly (string | Uint8Array)[],
): IncomingMessage {
  const rawHeaders = ["X-One", "1", "Connection", "close"];
  const readable = new Readable({ read() {} });
  for (const chunk of [...chunks, null]) readable.push(chunk);
  return Object.assign(readable, {
    statusCode,
    rawHeaders,
    complete: true,
  }) as never;
}

/** Converts a message, and returns how many transfers are in flight then. */
function convert(message: IncomingMessage): [ResponseContent, number] {
  const clock = new FakeClock();
  const options = { clock, log: silentLog, maxTransfers: 10 };
  const transfers = new Transfers(options);
  const transfer = transfers.begin({ address: "", clientKey: "" });
  const toBrokenBody = () => {
    throw new Error("Expected no broken body");
  };
  const content = upstreamResponse(message, "GET", {
    transfer,
    clock,
    toBrokenBody,
  });
  return [content, transfers.requests];
}

Deno.test("upstreamResponse() needs no stream for a small body that has arrived", async () => {
  const message = arrived(200, ["ab", "c"]);
  const hasEnded = new Promise((resolve) => message.on("end", resolve));
  const [{ status, headers, body }, transfers] = convert(message);
  assertEquals([status, [...headers], body], [
    200,
    [["x-one", "1"]],
    new TextEncoder().encode("abc"),
  ]);
  assertEquals(transfers, 0);
  await hasEnded; // the agent then reuses the connection
});

Deno.test("upstreamResponse() streams a body of more than 64 KiB", async () => {
  const chunk = new Uint8Array(40_000);
  const [{ body }, transfers] = convert(arrived(200, [chunk, chunk]));
  assertEquals([body instanceof ReadableStream, transfers], [true, 1]);
  assertEquals((await new Response(body).bytes()).length, 80_000);
});

Deno.test("upstreamResponse() ignores errors of a message without a body", async () => {
  const message = arrived(204, []);
  assertEquals(convert(message)[0].body, null);
  message.destroy(new Error("aborted")); // an error without a listener would end the process
  await new Promise(setImmediate);
  assertEquals(message.destroyed, true);
});
