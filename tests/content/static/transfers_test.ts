import { assertEquals, assertRejects } from "@std/assert";
import { answerWith, serveSite } from "./_content.ts";

/** Larger than what is read into memory. */
const LARGE = new Uint8Array(2 * 1024 * 1024);

function request(method = "GET", headers: HeadersInit = {}) {
  return new Request("http://localhost/large.bin", { method, headers });
}

Deno.test("StaticContent streams at most maxTransfers files, half of them to one client, and forgets those that ended", async () => {
  const options = { maxTransfers: 4 };
  await using site = await serveSite({ "large.bin": LARGE }, options);
  const { content } = site;
  for (let round = 0; round < 3; round++) {
    const [first, second] = [
      await answerWith(content, request()),
      await answerWith(content, request()),
    ];
    const third = await answerWith(content, request());
    assertEquals([
      first.status,
      second.status,
      third.status,
      third.headers.get("retry-after"),
    ], [200, 200, 429, "1"]);
    await (await answerWith(content, request("HEAD"))).body?.cancel();
    assertEquals((await first.bytes()).length, LARGE.length);
    await second.body?.cancel();
    await third.body?.cancel();
    const range = await answerWith(
      content,
      request("GET", { range: "bytes=1-3" }),
    );
    assertEquals([range.status, (await range.bytes()).length], [206, 3]);
  }
  content.close();
});

Deno.test("StaticContent ends a file that its client does not read for a minute, and closes it", async () => {
  const options = { maxTransfers: 2 };
  await using site = await serveSite({ "large.bin": LARGE }, options);
  const { content, clock } = site;
  const stalled = await answerWith(content, request());
  const reader = stalled.body!.getReader();
  await reader.read();
  assertEquals((await answerWith(content, request())).status, 429);
  await clock.tick(60_000);
  await assertRejects(
    () => reader.read(),
    Error,
    "The client has not read for a minute",
  );
  const next = await answerWith(content, request());
  assertEquals(next.status, 200);
  await next.body?.cancel();
  content.close();
});
