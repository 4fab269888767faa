import { assertEquals, assertThrows } from "@std/assert";
import { createGateway } from "../src/gateway.ts";
import { resolveSettings } from "../src/options.ts";
import { answerOf } from "./_answer.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { TempDirectory } from "./_temp.ts";

async function setUpApp(files: Record<string, string>) {
  const directory = await TempDirectory.make(files);
  const options = { basePath: "/app/", staticDir: directory.path };
  const test = await setUp(
    { REP_PUBLIC_A: "1", REP_SENSITIVE_B: "2" },
    options,
  );
  return {
    ...test,
    async [Symbol.asyncDispose]() {
      await test[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

const FILES = { "index.html": "<head></head>", "app.js": "js" };

async function bodyOf(test: TestGateway, path: string) {
  const response = await test.ask(path);
  return [response.status, await response.text()] as const;
}

Deno.test("with a base path, pages, files and endpoints are served under it, and the page names its endpoints", async () => {
  await using test = await setUpApp(FILES);
  for (const path of ["/app/", "/app/users/17", "/app/index.html"]) {
    const [status, html] = await bodyOf(test, path);
    const { _meta } = JSON.parse(
      /<script id="__rep__"[^>]*>([^<]*)</.exec(html)?.[1] ?? "null",
    );
    assertEquals([
      status,
      _meta.key_endpoint.split("=")[0],
      _meta.hot_reload.split("=")[0],
    ], [
      200,
      "/app/rep/session-key?kid",
      "/app/rep/changes?last_event_id",
    ]);
    assertEquals((await bodyOf(test, _meta.key_endpoint))[0], 200);
    const stream = await test.ask(_meta.hot_reload);
    await stream.body?.cancel();
    assertEquals(stream.headers.get("content-type"), "text/event-stream");
  }
  assertEquals(await bodyOf(test, "/app/app.js"), [200, "js"]);
  assertEquals((await bodyOf(test, "/app/rep/client.js"))[0], 200);
  assertEquals(
    JSON.parse((await bodyOf(test, "/app/rep/health"))[1]).status,
    "healthy",
  );
});

Deno.test("with a base path, links with a dot open the page, and a prerendered page has one URL below it", async () => {
  await using test = await setUpApp({ ...FILES, "about.html": "about" });
  const headers = { "sec-fetch-dest": "document", "accept": "text/html" };
  const page = await test.ask("/app/users/jane.doe", { headers });
  const isPage = (await page.text()).includes('<script id="__rep__"');
  assertEquals([page.status, isPage], [200, true]);
  const { status, headers: { location } } = await answerOf(
    await test.ask("/app/about/?tab=1", { headers }),
  );
  assertEquals([status, location], [308, "../about?tab=1"]);
  const outside = await test.ask("/users/jane.doe", { headers });
  await outside.body?.cancel();
  assertEquals(outside.status, 404);
});

Deno.test("with a base path, nothing is found outside of it", async () => {
  await using test = await setUpApp(FILES);
  for (
    const path of [
      "/",
      "/app.js",
      "/rep/health",
      "/apps/",
      "/APP/",
      "/%61pp/",
      "/app/../app.js",
      "/app/rep/x",
    ]
  ) {
    assertEquals([path, (await test.ask(path)).status], [path, 404]);
  }
});

Deno.test("with a base path, the path without its slash is redirected", async () => {
  await using test = await setUpApp(FILES);
  const { status, headers } = await test.ask("/app?q=1");
  assertEquals([status, headers.get("location")], [308, "/app/?q=1"]);
});

Deno.test("with a base path, handle() answers the gateway's own paths under it only", async () => {
  await using gateway = await createGateway({
    variables: {},
    basePath: "/app",
  });
  const status = async (path: string) =>
    (await gateway.handle(new Request(`http://gateway.test${path}`)))?.status;
  assertEquals([
    await status("/app/rep/health"),
    await status("/rep/health"),
    await status("/app/"),
  ], [
    200,
    undefined,
    undefined,
  ]);
});

Deno.test("with a base path, the health port serves its paths without it", async () => {
  await using gateway = await createGateway({
    variables: {},
    basePath: "/app",
  });
  for (const path of ["/rep/health", "/livez", "/readyz", "/metrics"]) {
    const response = await gateway.fetchHealth(
      new Request(`http://health.test${path}`),
    );
    await response.text();
    assertEquals([path, response.status], [path, 200]);
  }
});

Deno.test("with a base path, the upstream gets the rest of the path, and the base path in X-Forwarded-Prefix", async () => {
  const respond = ({ url, headers }: Request) =>
    Response.json([
      new URL(url).pathname + new URL(url).search,
      headers.get("x-forwarded-prefix"),
    ]);
  await using server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen() {},
  }, respond);
  const ask = async (upstream: string, basePath: string, path: string) => {
    await using gateway = await createGateway({
      variables: {},
      upstream,
      basePath,
    });
    const init = { headers: { "x-forwarded-prefix": "/forged" } };
    return await (await gateway.fetch(
      new Request(`http://gateway.test${path}`, init),
    )).json();
  };
  const upstream = `http://127.0.0.1:${server.addr.port}`;
  assertEquals(await ask(upstream, "/app", "/app/a%2Fb?q"), [
    "/a%2Fb?q",
    "/app",
  ]);
  assertEquals(await ask(`${upstream}/app`, "/app", "/app/"), [
    "/app/",
    "/app",
  ]);
  assertEquals(await ask(upstream, "", "/app/"), ["/app/", null]);
});

Deno.test("resolveSettings() rejects a base path that browsers would not send", () => {
  const { message } = assertThrows(
    () => resolveSettings({ basePath: "app" }),
    RangeError,
  );
  assertEquals(
    message,
    'Cannot use basePath: expected a path such as /app, got "app"',
  );
});
