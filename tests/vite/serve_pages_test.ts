/** Pages that are sent through Node's own server, as frameworks send them. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { createServer, type ServerResponse } from "node:http";
import { pipeline, Readable } from "node:stream";
import { constants, createGzip, gzipSync } from "node:zlib";
import { createGateway } from "../../main.ts";
import { get } from "../../src/client/mod.ts";
import { servePages } from "../../src/vite/serve_pages.ts";

const HEAD = "<!doctype html><html><head><title>x</title></head>";
const BODY = "<body>é</body></html>";
const PAGE = HEAD + BODY;
const HTML = { "content-type": "text/html" };

/** Sends a response, as a framework does. */
type Render = (response: ServerResponse) => void;

/** A server whose pages a framework renders. */
class PageServer implements AsyncDisposable {
  readonly errors: unknown[] = [];
  readonly #url: string;
  readonly #close: () => Promise<void>;

  private constructor(url: string, close: () => Promise<void>) {
    this.#url = url;
    this.#close = close;
  }

  /** @param render Sends a page, as a framework does. */
  static async start(
    render: Render,
    { browsersOnly = false } = {},
  ) {
    const gateway = await createGateway({
      variables: { REP_PUBLIC_TITLE: "Hello" },
    });
    const handler = servePages({
      current: () => gateway,
      browsersOnly,
      onError: (error) => running.errors.push(error),
    });
    const server = createServer((request, response) =>
      handler(request, response, () => render(response))
    );
    const { promise, resolve } = Promise.withResolvers<void>();
    server.listen(0, "127.0.0.1", resolve);
    await promise;
    const { port } = server.address() as { port: number };
    const running = new PageServer(`http://127.0.0.1:${port}/`, async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await gateway.close();
    });
    return running;
  }

  async get(
    headers: Record<string, string> = {},
    method = "GET",
  ) {
    const client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
    try {
      return await fetch(this.#url, {
        method,
        headers,
        client,
        redirect: "manual",
      });
    } finally {
      client.close();
    }
  }

  async [Symbol.asyncDispose]() {
    await this.#close();
  }
}

/** Returns a page without its configuration, and whether that was in the head, once. */
function parsePage(html: string): [rest: string, isConfigured: boolean] {
  const [before, element, after] = html.split(
    /(<script id="__rep__".*?<\/script>)/,
  );
  return after === undefined
    ? [html, false]
    : [before + after, /"TITLE":"Hello"/.test(element!)];
}

/** How frameworks send a page. */
const WAYS: Record<string, Render> = {
  "writeHead() with headers": (response) =>
    response.writeHead(200, HTML).end(PAGE),
  "writeHead() with a message and a list": (response) =>
    response.writeHead(200, "Fine", ["Content-Type", "text/html"]).end(PAGE),
  "writeHead() of a wrapper, which passes on all arguments": (response) =>
    response.writeHead(200, HTML as never, undefined).end(PAGE),
  "headers that are set by a wrapper of writeHead()": (response) => {
    const { writeHead } = response;
    response.writeHead = (status: number) => {
      response.setHeader("content-type", "text/html");
      return writeHead.call(response, status);
    };
    response.end(PAGE);
  },
  "headers that were set, and a length": (response) => {
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    response.setHeader("Content-Length", new TextEncoder().encode(PAGE).length);
    response.end(PAGE);
  },
  "headers that were set, and an encoding": (response) => {
    response.setHeader("content-type", "text/html;charset=utf-8");
    response.write(HEAD, "latin1");
    response.end(new TextEncoder().encode(BODY));
  },
  "flushHeaders()": (response) => {
    response.setHeader("content-type", "text/html");
    response.flushHeaders();
    response.write(HEAD);
    response.end(BODY);
  },
  "pipe()": (response) => {
    response.writeHead(200, HTML);
    Readable.from([HEAD, BODY]).pipe(response);
  },
  "compressed": (response) => {
    response.writeHead(200, { ...HTML, "content-encoding": "gzip" });
    response.end(gzipSync(PAGE));
  },
};

for (const [way, render] of Object.entries(WAYS)) {
  Deno.test(`servePages() inserts the configuration into a page, once: ${way}`, async () => {
    await using server = await PageServer.start(render);
    const response = await server.get();
    assertEquals(parsePage(await response.text()), [PAGE, true]);
    assertEquals(response.status, 200);
    assertEquals(response.headers.get("cache-control"), "no-cache");
  });
}

Deno.test("servePages() replaces a configuration that is in the page already", async () => {
  const earlier = '<script id="__rep__" type="application/json">{}</script>';
  await using server = await PageServer.start((response) => {
    response.writeHead(200, HTML);
    response.end(PAGE.replace("</head>", `${earlier}</head>`));
  });
  const text = await (await server.get()).text();
  assertEquals(parsePage(text), [PAGE, true]);
});

Deno.test("servePages() sends what is no page, or only a part of one, as it is", async () => {
  const answers: Render[] = [
    (response) => response.writeHead(200, { "x-a": ["1", "2"] }).end(PAGE),
    (response) => response.writeHead(204, HTML).end(),
    (response) => response.writeHead(304, HTML).end(),
    (response) => response.writeHead(302, { location: "/other" }).end(),
    (response) =>
      response.writeHead(206, { ...HTML, "content-range": "bytes 0-4/9" })
        .end("<html"),
  ];
  const got: unknown[] = [];
  for (const render of answers) {
    await using server = await PageServer.start(render);
    const response = await server.get();
    const { status, headers } = response;
    const shown = [headers.get("x-a"), headers.get("location")].join("");
    got.push([status, await response.text(), shown]);
  }
  assertEquals(got, [
    [200, PAGE, "1, 2"],
    [204, "", ""],
    [304, "", ""],
    [302, "", "/other"],
    [206, "<html", ""],
  ]);
});

Deno.test("what is no page keeps the length that Node gives it", async () => {
  await using server = await PageServer.start((response) => {
    response.setHeader("content-type", "text/javascript");
    response.end("export {};");
  });
  const response = await server.get();
  assertEquals(response.headers.get("content-length"), "10");
  assertEquals(await response.text(), "export {};");
});

Deno.test("a build's own requests get no values, neither in the page nor in what the server renders", async () => {
  await using server = await PageServer.start(async (response) => {
    await Promise.resolve();
    response.writeHead(200, HTML).end(`<h1>${get("TITLE", "none")}</h1>`);
  }, { browsersOnly: true });
  const prerendered = await server.get({ accept: "*/*" });
  assertEquals(await prerendered.text(), "<h1>none</h1>");
  const shown = await (await server.get({ accept: "text/html" })).text();
  assertEquals(parsePage(shown), ["<h1>Hello</h1>", true]);
});

Deno.test("servePages() has no body for HEAD, keeps cookies and statuses, and leaves fragments as they are", async () => {
  await using server = await PageServer.start((response) => {
    response.setHeader("set-cookie", ["a=1", "b=2"]);
    response.writeHead(404, HTML).end(PAGE);
  });
  const response = await server.get();
  assertEquals(response.headers.getSetCookie(), ["a=1", "b=2"]);
  assertEquals(response.status, 404);
  assertEquals(parsePage(await response.text()), [PAGE, true]);
  const head = await server.get({}, "HEAD");
  assertEquals([head.status, await head.text()], [404, ""]);
  const fragment = await server.get({ "sec-fetch-dest": "empty" });
  assertEquals(await fragment.text(), PAGE);
});

Deno.test("a page that is known to the browser is 304, whatever its handler does", async () => {
  const asked: unknown[] = [];
  await using server = await PageServer.start((response) => {
    const { headers } = response.req;
    asked.push(headers["if-none-match"]);
    response.writeHead(200, { ...HTML, etag: '"one"' }).end(PAGE);
  });
  const accept = "text/html";
  const first = await server.get({ accept });
  await first.body?.cancel();
  const etag = first.headers.get("etag") ?? "";
  assertStringIncludes(etag, "one");
  const second = await server.get({ accept, "if-none-match": etag });
  const other = await server.get({ accept, "if-none-match": '"one"' });
  assertEquals([second.status, await second.text()], [304, ""]);
  assertEquals(parsePage(await other.text()), [PAGE, true]);
  assertEquals(asked, [undefined, undefined, undefined]);
});

Deno.test("a streamed page stays streamed, compressed or not", async () => {
  for (const isCompressed of [false, true]) {
    const last = Promise.withResolvers<void>();
    await using server = await PageServer.start(async (response) => {
      const gzip = createGzip({ flush: constants.Z_SYNC_FLUSH });
      const out = isCompressed ? gzip : response;
      const encoding = isCompressed ? { "content-encoding": "gzip" } : {};
      response.writeHead(200, { ...HTML, ...encoding });
      if (isCompressed) pipeline(gzip, response, () => {});
      out.write(HEAD + "<body>first");
      await last.promise;
      out.end("last");
    });
    const response = await server.get();
    let text = "";
    for await (
      const part of response.body!.pipeThrough(new TextDecoderStream())
    ) {
      text += part;
      if (text.endsWith("first")) last.resolve();
    }
    assertEquals(parsePage(text), [`${HEAD}<body>firstlast`, true]);
  }
});

Deno.test("a page that is larger than what may wait is sent with backpressure, and callbacks are called", async () => {
  const chunk = "x".repeat(10_000);
  const called: string[] = [];
  const waits: boolean[] = [];
  await using server = await PageServer.start(async (response) => {
    response.writeHead(200, HTML);
    response.write(HEAD, () => called.push("write"));
    for (let i = 0; i < 100; i++) {
      const isFull = !response.write(chunk);
      waits.push(isFull);
      if (!isFull) continue;
      await new Promise((resolve) => response.once("drain", resolve));
    }
    assertEquals(response.headersSent, true);
    response.end(BODY, "utf8", () => called.push("end"));
  });
  const text = await (await server.get()).text();
  assertEquals(parsePage(text), [HEAD + chunk.repeat(100) + BODY, true]);
  assertEquals([waits.includes(true), called], [true, ["write", "end"]]);
});

Deno.test("a handler that waits until more may be written goes on if nobody needs the body", async () => {
  const written = Promise.withResolvers<void>();
  await using server = await PageServer.start(async (response) => {
    response.writeHead(200, HTML);
    for (let i = 0; i < 100; i++) {
      if (response.write("x".repeat(10_000))) continue;
      await new Promise((resolve) => response.once("drain", resolve));
    }
    response.end();
    written.resolve();
  });
  const response = await server.get({}, "HEAD");
  assertEquals(await response.text(), "");
  await written.promise;
});

Deno.test("what a handler writes or ends too late is dropped, and the page arrives", async () => {
  await using server = await PageServer.start((response) => {
    response.writeHead(200, HTML).end(PAGE);
    response.write("late");
    response.end("late");
  });
  const response = await server.get();
  assertEquals(parsePage(await response.text()), [PAGE, true]);
  assertEquals(server.errors, []);
});

Deno.test("a client that leaves ends the page, which is no error", async () => {
  const closed = Promise.withResolvers<void>();
  await using server = await PageServer.start((response) => {
    response.on("close", closed.resolve);
    response.writeHead(200, HTML);
    response.write(HEAD + "<body>");
  });
  const response = await server.get();
  await response.body?.cancel();
  await closed.promise;
  assertEquals(server.errors, []);
});

Deno.test("a page that cannot be decoded breaks off, and is reported", async () => {
  await using server = await PageServer.start((response) => {
    response.writeHead(200, { ...HTML, "content-encoding": "gzip" });
    response.end("no gzip");
  });
  const text = await server.get().then((response) => response.text()).catch(
    () => "broken",
  );
  assertEquals([text, server.errors.length], ["broken", 1]);
});

Deno.test("servePages() renders within run(), so that the server has the values of the page", () => {
  const order: string[] = [];
  const gateway = {
    run<Result>(callback: () => Result) {
      order.push("run");
      return callback();
    },
    inject: (response: Response) => Promise.resolve(response),
  };
  const handler = servePages({
    current: () => gateway,
    browsersOnly: false,
    onError() {},
  });
  const request = { url: "/", headers: {}, socket: {} };
  const response = new Proxy({} as ServerResponse, { get: () => () => {} });
  handler(request, response, () => order.push("render"));
  assertEquals(order, ["run", "render"]);
});
