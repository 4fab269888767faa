import { assertEquals, assertStrictEquals } from "@std/assert";
import { createGateway } from "../../src/gateway.ts";
import { headResponse } from "../../src/http/head_response.ts";
import { TempDirectory } from "../_temp.ts";

Deno.test("headResponse() replaces a missing body, and keeps status and headers", async () => {
  const original = new Response(null, {
    status: 404,
    statusText: "Gone fishing",
    headers: { "x-own": "1" },
  });
  const { status, statusText, headers, body } = headResponse(original);
  assertEquals([status, statusText, [...headers]], [404, "Gone fishing", [[
    "x-own",
    "1",
  ]]]);
  assertEquals(await new Response(body).text(), "");
  assertEquals(body instanceof ReadableStream, true);
});

Deno.test("headResponse() returns other responses unchanged", async () => {
  const withLength = new Response(null, {
    headers: { "content-length": "39" },
  });
  const notModified = new Response(null, { status: 304 });
  const withBody = new Response("x");
  for (const response of [withLength, notModified, withBody]) {
    assertStrictEquals(headResponse(response), response);
  }
  await withBody.body?.cancel();
});

/** Returns the header lines of a response; `fetch()` does not show the length of one to HEAD. */
async function headersOf(
  port: number,
  method: string,
  path: string,
): Promise<string[]> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const request =
    `${method} ${path} HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n\r\n`;
  await connection.write(new TextEncoder().encode(request));
  const chunks = await Array.fromAsync(
    connection.readable.values({ preventCancel: true }),
  );
  const [head = ""] = (await new Blob(chunks).text()).split("\r\n\r\n");
  return head.split("\r\n");
}

/** A server behind the gateway that sends pages and data in chunks, so that their length is unknown. */
function startUpstream() {
  const handler = ({ method, url }: Request) => {
    const body = method === "HEAD"
      ? ReadableStream.from([])
      : ReadableStream.from([new Uint8Array(3)]);
    return new Response(body, {
      headers: {
        "content-type": url.endsWith("/data") ? "text/plain" : "text/html",
      },
    });
  };
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, handler);
}

async function lengthsOf(
  port: number,
  paths: readonly string[],
): Promise<(string | undefined)[]> {
  const heads = await Promise.all(
    paths.map((path) => headersOf(port, "HEAD", path)),
  );
  return heads.map((lines) =>
    lines.find((line) => /^content-length:/i.test(line))
  );
}

Deno.test("the response to HEAD has the length of the response to GET, or none", async () => {
  await using directory = await TempDirectory.make({
    "index.html": "<head></head>",
    "app.js": "12345",
  });
  await using upstream = startUpstream();
  const variables = { REP_PUBLIC_A: "1" };
  await using files = await createGateway({
    variables,
    staticDir: directory.path,
  });
  await using proxy = await createGateway({
    variables,
    upstream: `http://127.0.0.1:${upstream.addr.port}`,
  });
  const options = { hostname: "127.0.0.1", port: 0, onListen() {} };
  await using fileServer = Deno.serve(options, files.fetch);
  await using proxyServer = Deno.serve(options, proxy.fetch);
  const paths = [
    "/",
    "/index.html",
    "/app.js",
    "/rep/health",
    "/rep/client.js",
  ];
  const ofFiles = await lengthsOf(fileServer.addr.port, paths);
  const page = await files.fetch(new Request("http://gateway.test/"));
  const ofPage = `content-length: ${(await page.bytes()).length}`;
  assertEquals(ofFiles, [
    ofPage,
    ofPage,
    "content-length: 5",
    undefined,
    undefined,
  ]);
  assertEquals(await lengthsOf(proxyServer.addr.port, ["/", "/data"]), [
    undefined,
    undefined,
  ]);
});
