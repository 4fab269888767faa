import { createGateway } from "../../../src/gateway.ts";
import type { GatewayOptions } from "../../../src/options.ts";
import {
  notFound,
  readUrl,
  type RequestUrl,
  Router,
} from "../../../src/core/http/routes.ts";
import { answerOf } from "../../_answer.ts";
import { assertEquals, assertStrictEquals } from "@std/assert";

const handler = () => new Response();

Deno.test("find() returns the handler of exactly this path", () => {
  const table = {
    "/rep/health": { handler, isForAnyHost: true },
    "/rep/changes": { handler: () => new Response() },
  };
  const router = new Router({
    table,
    fallback: { handler: notFound },
    basePath: "",
  });
  const route = router.find("/rep/health");
  assertStrictEquals(route.handler, handler);
  assertEquals(route.pattern, "/rep/health");
  assertEquals(route.isForAnyHost, true);
  assertEquals(router.find("/rep/changes").isForAnyHost, undefined);
  assertStrictEquals(router.find("/rep/health/").handler, notFound);
});

Deno.test("find() returns the first route that ends with /* and that a path is below, which is the gateway's own", () => {
  const router = new Router({
    table: {
      "/a/b": { handler },
      "/a/b/*": { handler },
      "/a/*": { handler },
    },
    fallback: { handler },
    basePath: "/app",
  });
  const paths = ["/a/b", "/a/b/", "/a/b/c/d", "/a/c", "/a/", "/a", "/ab/c"];
  assertEquals(
    paths.map((path) => router.find(`/app${path}`).pattern.slice(4)),
    ["/a/b", "/a/b/*", "/a/b/*", "/a/*", "/a/*", "/*", "/*"],
  );
  assertEquals(
    paths.map((path) => router.owns(`/app${path}`)),
    [true, true, true, true, true, false, false],
  );
  assertEquals(router.owns("/a/b"), false);
});

const OPTIONS: GatewayOptions = {
  variables: { REP_PUBLIC_A: "1", REP_SENSITIVE_B: "1" },
  hotReload: true,
};
const NOT_FOUND = {
  status: 404,
  headers: {
    "content-type": "application/problem+json",
    "cache-control": "no-store",
  },
  body: {
    title: "Not Found",
    status: 404,
    detail: "Nothing found at this path",
  },
};

/** URLs that the URL standard normalizes to `/rep/health`. */
const ALIASES = [
  "/rep/health",
  "/rep/health?",
  "/rep/health?a=b",
  "/rep/health#top",
  "/rep/health ",
  "/rep/he\tal\nth",

  "/rep/../rep/health",
  "/rep/./health",
  "/a/../rep/health",
  "/../../rep/health",
  "/rep/x/%2e%2e/health",
  "/rep/%2E/health",
  "\\rep\\health",
  "/rep\\health",
  "/rep/health\0",
];

Deno.test("fetch() responds to every spelling of /rep/health that the URL standard normalizes", async () => {
  await using gateway = await createGateway(OPTIONS);
  for (const path of ALIASES) {
    const { status, headers } = await gateway.fetch(
      new Request(`http://gateway.test${path}`),
    );
    assertEquals([path, status, headers.get("content-type")], [
      path,
      200,
      "application/json",
    ]);
  }
});

/** Paths that only resemble those of the gateway. */
const SIMILAR_PATHS = [
  "/",
  "/rep",
  "/rep//health",
  "//rep/health",
  "/rep/health/",
  "/rep/Health",
  "/rep/SESSION-KEY",
  "/rep/changes.json",
  "/rep%2fhealth",
  "/rep/%68ealth",
  "/rep/health%00",
  "/rep/health;v=1",
  "/rep/hea\0lth",
  "/rep/%ff%fe",
  "/rep/%",
  "/rep/__proto__",
  "/toString",
  "/rep/..",
  "/rep/../health",
  `/rep/${"a".repeat(10_000)}`,
  `/rep/health/${"../".repeat(3_000)}`,
];

Deno.test("fetch() responds with 404 to paths that only resemble those of the gateway, for any method", async () => {
  await using gateway = await createGateway(OPTIONS);
  for (const path of SIMILAR_PATHS) {
    for (const method of ["GET", "POST", "OPTIONS", "FOO"]) {
      const answer = await answerOf(
        await gateway.fetch(
          new Request(`http://gateway.test${path}`, { method }),
        ),
      );
      assertEquals({ path, method, answer }, {
        path,
        method,
        answer: NOT_FOUND,
      });
    }
  }
});

/** The status of each method at each endpoint; 405 for all others. */
const METHODS: Record<
  string,
  { allow: string; statuses: Record<string, number> }
> = {
  "/rep/health": { allow: "GET, HEAD", statuses: { GET: 200, HEAD: 200 } },
  "/rep/session-key": {
    allow: "GET, OPTIONS",
    statuses: { GET: 200, OPTIONS: 204 },
  },
  "/rep/changes": {
    allow: "GET, OPTIONS",
    statuses: { GET: 200, OPTIONS: 204 },
  },
  "/rep/client.js": { allow: "GET, HEAD", statuses: { GET: 200, HEAD: 200 } },
};

for (const [path, { allow, statuses }] of Object.entries(METHODS)) {
  Deno.test(`fetch() responds to ${Object.keys(statuses).join(", ")} ${path}, and with 405 to other methods`, async () => {
    await using gateway = await createGateway(OPTIONS);
    for (
      const method of [
        "GET",
        "HEAD",
        "OPTIONS",
        "POST",
        "QUERY",
        "foo",
        "*",
        "GETGET",
        "X".repeat(5_000),
      ]
    ) {
      const response = await gateway.fetch(
        new Request(`http://gateway.test${path}`, { method }),
      );
      const expected = statuses[method] ?? 405;
      assertEquals([method, response.status], [method, expected]);
      if (expected === 405) assertEquals(response.headers.get("allow"), allow);
      await response.body?.cancel();
    }
  });
}

Deno.test("fetch() responds to /rep/changes with 404 without hot reload, for any method", async () => {
  await using gateway = await createGateway({ ...OPTIONS, hotReload: false });
  for (const method of ["GET", "HEAD", "OPTIONS", "POST", "FOO"]) {
    const request = new Request("http://gateway.test/rep/changes", { method });
    const { status, headers, body } = await answerOf(
      await gateway.fetch(request),
    );
    assertEquals([status, headers["vary"]], [404, "Origin"]);
    assertEquals(body, {
      title: "Not Found",
      status: 404,
      detail: "Hot reload is not enabled",
    });
  }
});

const URLS: Record<string, RequestUrl | undefined> = {
  "http://a/b?c": { origin: "http://a", path: "/b", search: "?c" },
  "http://A:80/x/../b": { origin: "http://a", path: "/b", search: "" },
  "https://[::1]:8080": {
    origin: "https://[::1]:8080",
    path: "/",
    search: "",
  },
  "http+unix://%2Ftmp%2Fs/b#c": {
    origin: "http+unix://%2Ftmp%2Fs",
    path: "/b",
    search: "",
  },
  "http://a:99999/b": undefined,
  "http://a b/c": undefined,
  "http://%zz/": undefined,
  "http://": undefined,
  "*": undefined,
};

for (const [text, url] of Object.entries(URLS)) {
  Deno.test(`readUrl() returns ${url ? "the parts" : "undefined"} of ${text}`, () => {
    assertEquals(readUrl(text), url);
  });
}

Deno.test("readUrl() returns the query as it was sent, encoded only if a request line could not contain it", () => {
  const sent = [
    "",
    "?",
    "?a=%2f%zz&b='\"<>|[]{}`^\\",
    "??x=http://evil/",
    "?\u00e9 ",
    "?\u0000b",
    "?a\tb#?c",
    "?a#b?c",
  ];
  const expected = [...sent.slice(0, 4), "?%C3%A9", "?%00b", "?ab", "?a"];
  assertEquals(
    sent.map((query) => readUrl(`http://host/a${query}`)?.search),
    expected,
  );
});
