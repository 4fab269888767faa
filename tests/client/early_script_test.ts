/** Scripts that run before the browser has parsed the configuration of their page. */
import { assertEquals } from "@std/assert";
import { createGateway } from "../../main.ts";
import { testBrowser } from "../_browser.ts";
import { serveLocally } from "../_serve.ts";

declare global {
  /** What `early_app.ts` has seen. */
  var app: {
    client: typeof import("../../src/client/mod.ts");
    early: unknown[];
    seen: unknown[];
    secret?: string;
    rendered(): string[];
  };
  /** The first value that another copy of the client has returned, and that copy. */
  var copy: { first: string; get(key: string): string | undefined };
}

const TOO_EARLY =
  "[REP] Cannot get values before the page's configuration: expected defer";

/** The beginning of the element with the configuration, and what is in its middle. */
const ELEMENT = '<script id="__rep__"';
const MIDDLE = '"public":';

/** How an app gets into a page, and which text ends the part of the page that is sent before the app has run. */
interface Case {
  readonly html: string;
  readonly until?: string;
  /** Whether the configuration is in the body, as that of another gateway may be. */
  readonly isInBody?: boolean;
}

const MODULE = '<script type="module" async src="/app.js"></script>';
const CASES: Record<string, Case> = {
  "an async module in the head": { html: `<head>${MODULE}</head>` },
  "an async classic script": {
    html: `<head><script async src="/app.js"></script></head>`,
  },
  "an element of which half has arrived": {
    html: `<head>${MODULE}</head>`,
    until: MIDDLE,
  },
  "a parser that waits for a style sheet": {
    html: `<head>${MODULE}<link rel="stylesheet" href="/slow.css">` +
      `<script>globalThis.styled = true</script></head>`,
    until: "</html>",
  },
  "a classic script in the head": {
    html: `<head><script src="/app.js"></script></head>`,
    until: "</html>",
  },
  "a script that is written by another one": {
    html:
      `<head><script>document.write('<script src="/app.js"><\\/script>')</script></head>`,
    until: "</html>",
  },
  "a configuration in the body": {
    html: `<head>${MODULE}</head>`,
    isInBody: true,
  },
};

async function bundleApp(): Promise<string> {
  const app = new URL("early_app.ts", import.meta.url).href;
  const command = new Deno.Command(Deno.execPath(), {
    args: ["bundle", "--quiet", "--no-lock", "--platform", "browser", app],
  });
  const { success, stdout, stderr } = await command.output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return `(() => {${new TextDecoder().decode(stdout)}})()`;
}

/** Serves a page of a gateway, whose second part is sent once the app has run. */
async function serve(
  { html, until = ELEMENT, isInBody }: Case,
  script: string,
) {
  const variables: Record<string, string> = {
    REP_PUBLIC_A: "1",
    REP_SENSITIVE_S: "secret",
  };
  const gateway = await createGateway({
    variables: () => variables,
    hotReload: true,
  });
  const ran = Promise.withResolvers<void>();
  const page = `<!doctype html><html>${html}<body>The page</body></html>`;

  async function respondInParts(request: Request): Promise<Response> {
    const headers = { "content-type": "text/html" };
    const response = new Response(page, { headers });
    const sent = await (await gateway.inject(response, request)).text();
    const injected = isInBody
      ? sent.replace(/(<script id="__rep__".*?<\/script>)(.*<body>)/, "$2$1")
      : sent;
    const split = injected.indexOf(until) + until.length;
    async function* parts() {
      yield injected.slice(0, split);
      if (until !== "</html>") await ran.promise;
      yield injected.slice(split);
    }
    const body = ReadableStream.from(parts()).pipeThrough(
      new TextEncoderStream(),
    );
    return new Response(body, { headers });
  }

  const server = serveLocally(async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/ran") ran.resolve();
    if (pathname === "/slow.css") await ran.promise;
    if (pathname === "/slow.css" || pathname === "/ran") {
      return new Response("", { headers: { "content-type": "text/css" } });
    }
    if (pathname === "/app.js") {
      const headers = { "content-type": "text/javascript" };
      return new Response(script, { headers });
    }
    return await gateway.handle(request) ?? await respondInParts(request);
  });
  return {
    url: server.url,
    async change(value: string) {
      variables["REP_PUBLIC_A"] = value;
      await gateway.reload();
    },
    async [Symbol.asyncDispose]() {
      ran.resolve(); // also if the app has failed
      await gateway.close();
      await server.shutdown();
    },
  };
}

testBrowser(
  "a script that runs before the configuration gets it, its components and its subscribers too",
  async (browser, context) => {
    const script = await bundleApp();
    for (const [name, scenario] of Object.entries(CASES)) {
      await context.step(name, async () => {
        await using served = await serve(scenario, script);
        const page = await browser.open("about:blank");
        const messages: string[] = [];
        page.on("console", (message) => messages.push(message.text()));
        page.on("pageerror", (error) => messages.push(String(error)));
        await page.goto(served.url);
        await page.waitForFunction(() =>
          globalThis.app.secret && globalThis.app.seen.length > 0
        );
        const { early, seen, secret, rendered, value, meta } = await page
          .evaluate(() => ({
            ...globalThis.app,
            client: null,
            rendered: globalThis.app.rendered(),
            value: globalThis.app.client.get("A", "default"),
            meta: globalThis.app.client.meta()?.integrityValid,
          }));
        assertEquals(early, ["default", null, false]);
        assertEquals(seen, [["1", undefined]]);
        assertEquals([secret, value, meta], ["secret", "1", true]);
        assertEquals(rendered, ["1", "1"]);
        await served.change("2");
        await page.waitForFunction(() =>
          globalThis.app.rendered().join() === "2,2"
        );
        assertEquals(
          await page.evaluate(() => globalThis.app.seen.at(-1)),
          ["2", "1"],
        );
        assertEquals(messages.filter((it) => it.includes("REP")), [TOO_EARLY]);
      });
    }
  },
);

testBrowser(
  "two copies of the client in one page look again, each for itself",
  async (browser) => {
    const copy = `<script type="module" async>` +
      `import { get } from "/rep/client.js";` +
      `globalThis.copy = { get, first: get("A", "default") };</script>`;
    const html = `<head>${copy}${MODULE}</head>`;
    await using served = await serve({ html }, await bundleApp());
    const page = await browser.open("about:blank");
    await page.goto(served.url);
    await page.waitForFunction(() => globalThis.app.seen.length > 0);
    assertEquals(
      await page.evaluate(() => [
        globalThis.copy.first,
        globalThis.copy.get("A"),
        globalThis.app.client.get("A"),
      ]),
      ["default", "1", "1"],
    );
  },
);
