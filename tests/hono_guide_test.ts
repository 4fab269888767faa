import { assertEquals } from "@std/assert";
import { Hono } from "hono";
import { compress } from "hono/compress";
import { etag } from "hono/etag";
import { configuration } from "../examples/hono/configuration.ts";
import { testBrowser } from "./_browser.ts";
import { startModule } from "./_command.ts";
import { Example, ExamplePage } from "./_example.ts";
import { setUp } from "./_gateway.ts";

testBrowser(
  "examples/hono: a page with a nonce has the configuration",
  async (browser) => {
    await using example = await Example.copy("hono");
    await using server = await startModule("examples/hono/server.ts", [
      example.at("app.env"),
      "0",
    ]);
    const page = await ExamplePage.open(browser, server.url);
    await page.check(async (from, to) =>
      await example.edit("app.env", from, to)
    );
    assertEquals(
      await (await fetch(`${server.url}/rep/health`)).json().then((
        { status },
      ) => status),
      "healthy",
    );
  },
);

Deno.test("examples/hono: a page has the headers of the gateway, not those of the original response", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1", REP_SENSITIVE_B: "2" });
  const headers = {
    "cache-control": "max-age=60",
    "content-length": "13",
    "etag": '"a"',
    "expires": "0",
    "x-own": "kept",
  };
  const app = new Hono()
    .use(configuration(gate.gateway))
    .get("/", (context) => context.html("<title>a</title>", { headers }));
  const page = await app.request("/");
  assertEquals((await page.text()).includes("__rep__"), true);
  assertEquals(Object.fromEntries(page.headers), {
    "cache-control": "no-store",
    "content-type": "text/html; charset=UTF-8",
    "vary": "Sec-Fetch-Dest, Sec-Fetch-Mode",
    "x-own": "kept",
  });
  assertEquals((await app.request("/rep/health")).status, 200);
});

Deno.test("examples/hono: a page may be compressed and have an ETag of its own", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1" });
  const text = `<title>a</title>${"text ".repeat(1_000)}`;
  const app = new Hono()
    .use(configuration(gate.gateway), compress(), etag())
    .get(
      "/",
      (context) =>
        context.html(text, {
          headers: { "content-length": String(text.length) },
        }),
    );
  const headers = { "accept-encoding": "gzip" };
  const page = await app.request("/", { headers });
  assertEquals([
    page.headers.get("content-encoding"),
    (await page.text()).includes("__rep__"),
  ], [null, true]);
  const tag = page.headers.get("etag") ?? "";
  assertEquals(
    (await app.request("/", { headers: { ...headers, "if-none-match": tag } }))
      .status,
    304,
  );
  await gate.set({ REP_PUBLIC_A: "2" });
  assertEquals(
    (await app.request("/", { headers: { ...headers, "if-none-match": tag } }))
      .status,
    200,
  );
});
