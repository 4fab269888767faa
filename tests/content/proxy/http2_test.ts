import { serveLocally } from "../../_serve.ts";
import { assertEquals } from "@std/assert";
import { once } from "node:events";
import http2 from "node:http2";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { serveProxy } from "./_servers.ts";

const UPLOADS = 50;

/** Connects over HTTP/2, without TLS. */
function connect(port: number) {
  const session = http2.connect(`http://127.0.0.1:${port}`);
  session.on("error", () => {});
  return session;
}

for (const code of ["NGHTTP2_CANCEL", "NGHTTP2_NO_ERROR"] as const) {
  Deno.test(`uploads without a length that are reset together (${code}) reach the upstream as incomplete`, async () => {
    const begun = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const results: string[] = [];
    let arrived = 0;
    await using upstream = serveLocally(async (request) => {
      if (++arrived === UPLOADS) begun.resolve();
      const result = await request.text().then(
        (text) => `complete: ${text.length}`,
        () => "incomplete",
      );
      if (results.push(result) === UPLOADS) ended.resolve();
      return new Response();
    });
    await using proxy = serveProxy(upstream);
    const session = connect(proxy.port);
    const uploads = Array.from({ length: UPLOADS }, () => {
      const upload = session.request({ ":method": "POST", ":path": "/" });
      upload.on("error", () => {});
      upload.write("x".repeat(1_000));
      return upload;
    });
    await begun.promise;
    for (const upload of uploads) upload.close(http2.constants[code]);
    await ended.promise;
    assertEquals([...new Set(results)], ["incomplete"]);
    session.destroy();
  });
}

Deno.test("an upload without a length over HTTP/2 reaches the upstream as it was sent", async () => {
  await using upstream = serveLocally(async (request) =>
    new Response(await request.text())
  );
  await using proxy = serveProxy(upstream);
  const session = connect(proxy.port);
  for (const text of ["", "abc"]) {
    const upload = session.request({ ":method": "POST", ":path": "/" });
    upload.end(text);
    let answer = "";
    upload.on("data", (chunk) => answer += chunk);
    await once(upload, "end");
    assertEquals(answer, text);
  }
  session.close();
  await once(session, "close");
});

for (const method of ["OPTIONS", "DELETE", "POST"]) {
  Deno.test(`${method} over HTTP/2 without a body is forwarded without a pause`, async () => {
    const clock = new FakeClock(); // it stands still, so that a pause would never end
    await using upstream = serveLocally(async ({ method, headers, body }) => {
      await body?.cancel();
      const length = headers.get("content-length");
      return Response.json([method, length, headers.get("transfer-encoding")]);
    });
    await using proxy = serveProxy(upstream, { clock });
    const session = connect(proxy.port);
    const request = session.request({ ":method": method, ":path": "/" }, {
      endStream: true,
    });
    let answer = "";
    request.on("data", (chunk) => answer += chunk);
    await once(request, "end");
    const length = method === "POST" ? "0" : null;
    assertEquals(JSON.parse(answer), [method, length, null]);
    session.close();
    await once(session, "close");
  });
}

Deno.test("responses of the upstream that nobody reads over HTTP/2 end after a minute, and free their connections", async () => {
  const clock = new FakeClock();
  let open = 0;
  const closed = Promise.withResolvers<void>();
  await using upstream = serveLocally(() => {
    open++;
    const chunk = new Uint8Array(65_536);
    return new Response(
      new ReadableStream({
        pull: (controller) => controller.enqueue(chunk),
        cancel: () => void (--open === 0 && closed.resolve()),
      }),
    );
  });
  await using proxy = serveProxy(upstream, { clock });
  const session = http2.connect(`http://127.0.0.1:${proxy.port}`, {
    settings: { initialWindowSize: 0 },
  });
  session.on("error", () => {});
  const responses = Array.from({ length: 5 }, () => {
    const request = session.request({ ":path": "/" });
    request.on("error", () => {});
    return once(request, "response");
  });
  await Promise.all(responses);
  assertEquals(open, 5);
  const idle = proxy.transfers.idle();
  while (open > 0) await clock.tick(10_000);
  await Promise.all([closed.promise, idle]);
  assertEquals(proxy.warnings, []); // it is not the upstream that failed
  session.destroy();
});
