import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { CLIENT_JS } from "../../src/client/bundle.ts";
import { clientScript } from "../../src/addons/client_script.ts";
import type { AddonParts } from "../../src/core/addon.ts";
import type { RouteContext } from "../../src/core/http/routes.ts";

function request(
  headers: Record<string, string> = {},
  method = "GET",
) {
  return new Request("http://gateway.test/rep/client.js", { method, headers });
}

/** Responds as a gateway whose bytes are shared, as those of the command are, or not. */
async function respondWithClientScript(request: Request, sharesBytes = false) {
  const { routes } = clientScript(sharesBytes)({} as AddonParts);
  const { handler } = routes!["/rep/client.js"]!;
  return await handler(request, {} as RouteContext);
}

/** The current entity tag of the script. */
async function currentTag() {
  const response = await respondWithClientScript(request({}, "HEAD"));
  return response.headers.get("etag") ?? "";
}

Deno.test("GET /rep/client.js returns the client module with an entity tag", async () => {
  const response = await respondWithClientScript(request());
  const etag = response.headers.get("etag") ?? "";
  assertNotEquals(etag, "");
  assertEquals([response.status, [...response.headers]], [200, [
    ["cache-control", "no-cache"],
    ["content-length", String(CLIENT_JS.length)],
    ["content-type", "text/javascript; charset=utf-8"],
    ["etag", etag],
    ["vary", "Accept-Encoding"],
  ]]);
  assertEquals(await response.text(), CLIENT_JS);
  assertMatch(CLIENT_JS, /^[\x20-\x7e\n]*$/); // otherwise, it would have more bytes than characters
});

for (const [coding, format] of [["br", "brotli"], ["gzip", "gzip"]] as const) {
  Deno.test(`GET /rep/client.js is sent as ${coding} to a client that accepts it, with a tag of its own`, async () => {
    const response = await respondWithClientScript(
      request({ "accept-encoding": coding }),
    );
    assertEquals(response.headers.get("content-encoding"), coding);
    assertEquals(
      response.headers.get("etag"),
      (await currentTag()).replace(/"$/, `-${coding}"`),
    );
    assertEquals(
      await new Response(
        response.body?.pipeThrough(new DecompressionStream(format)),
      ).text(),
      CLIENT_JS,
    );
  });
}

/** `If-None-Match` values, in which TAG stands for the current entity tag. */
const CONDITIONS: Record<string, 200 | 304> = {
  "TAG": 304,
  '"old", TAG': 304,
  "*": 304,
  '"old"': 200,
};

for (const [condition, status] of Object.entries(CONDITIONS)) {
  Deno.test(`GET /rep/client.js with If-None-Match ${condition} is ${status}`, async () => {
    const header = condition.replace("TAG", await currentTag());
    const response = await respondWithClientScript(
      request({ "if-none-match": header }),
    );
    assertEquals([response.status, response.headers.get("etag")], [
      status,
      await currentTag(),
    ]);
    assertEquals(await response.text(), status === 200 ? CLIENT_JS : "");
  });
}

Deno.test("GET /rep/client.js is the same where bytes are shared", async () => {
  for (const coding of ["identity", "br", "gzip"]) {
    const asked = () => request({ "accept-encoding": coding });
    const [copied, shared] = [
      await respondWithClientScript(asked(), false),
      await respondWithClientScript(asked(), true),
    ];
    assertEquals([...shared.headers], [...copied.headers]);
    assertEquals(await shared.bytes(), await copied.bytes());
  }
});
