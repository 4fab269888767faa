import { assertEquals } from "@std/assert";
import { renderConfigScript } from "../../../src/core/pages/config_script.ts";
import { reloadOnLostChunk } from "../../../src/client/builds/lost_chunks.ts";
import type { Payload } from "../../../src/core/pages/payload.ts";
import { replaceGlobals, storageOf } from "./_page.ts";

/** A page of build A with a lost chunk. */
interface Loss {
  /** The build of the page; `undefined` if it names none. */
  build?: string | undefined;
  /** What answers when the page is asked for again; offline, nobody does. */
  answer?: {
    status: number;
    build?: string;
    /** Rewrites the HTML, as something that compresses it does. */
    rewrite?: (html: string) => string;
  };
  stored?: Map<string, string> | undefined;
  refuses?: boolean;
}

function pageOf(build: string | undefined) {
  const dataset = build === undefined ? {} : { repBuild: build };
  return { getElementById: () => ({ dataset }) };
}

/** Returns the HTML of a page, as a gateway sends it. */
async function htmlOf(build: string | undefined): Promise<string> {
  const payload: Payload = {
    public: { NOTE: 'data-rep-build="X"' },
    _meta: { version: "0.1.0", injected_at: "", integrity: "", ttl: 0 },
  };
  const { bytes } = await renderConfigScript(payload, { build });
  const script = new TextDecoder().decode(bytes);
  return `<!doctype html><html><head>${script}</head></html>`;
}

/** Returns how often the page is reloaded, and with which headers it was asked for. */
async function lose(page: Loss, times = 1) {
  const { answer } = page;
  const html = await htmlOf(answer?.build);
  const stored = "stored" in page ? page.stored : new Map();
  const requests: unknown[] = [];
  const events: unknown[] = [];
  let reloads = 0;
  let listener = () => {};
  using _ = replaceGlobals({
    document: pageOf("build" in page ? page.build : "A"),
    location: { href: "https://app.test/a?b", reload: () => reloads++ },
    sessionStorage: storageOf(stored),
    fetch(url: string, init: RequestInit) {
      requests.push([url, init.cache, init.headers]);
      if (answer === undefined) return Promise.reject(new TypeError());
      const sent = answer.rewrite?.(html) ?? html;
      return Promise.resolve(new Response(sent, { status: answer.status }));
    },
    addEventListener: (_: string, added: () => void) => listener = added,
    dispatchEvent({ type, detail }: CustomEvent) {
      events.push([type, detail]);
      return !page.refuses;
    },
  });
  reloadOnLostChunk();
  for (let time = 0; time < times; time++) {
    listener();
    await new Promise((resolve) => setTimeout(resolve, 0)); // a macrotask: all promises have settled
  }
  return { reloads, requests: requests.length, request: requests[0], events };
}

const B = { status: 200, build: "B" };
const JUST_NOW = new Map([["rep:reloaded", `${Date.now() - 599_000}`]]);
const LONG_AGO = new Map([["rep:reloaded", `${Date.now() - 601_000}`]]);

const CASES: Record<string, [loss: Loss, reloads: number, requests: number]> = {
  "another build answers": [{ answer: B }, 1, 1],
  "the same build answers": [{ answer: { status: 200, build: "A" } }, 0, 1],
  "the same build answers, whose ID has to be escaped": [
    { answer: { status: 200, build: `a"b'c&<d>` }, build: `a"b'c&<d>` },
    0,
    1,
  ],
  "a page without a build answers": [{ answer: { status: 200 } }, 0, 1],
  "an error page of another build answers": [
    { answer: { status: 503, build: "B" } },
    0,
    1,
  ],
  "nobody answers": [{}, 0, 1],
  "the page has no build": [{ answer: B, build: undefined }, 0, 0],
  "the page has no access to storage": [
    { answer: B, stored: undefined },
    0,
    0,
  ],
  "the tab was reloaded within ten minutes": [
    { answer: B, stored: JUST_NOW },
    0,
    0,
  ],
  "the tab was reloaded before that": [{ answer: B, stored: LONG_AGO }, 1, 1],
  "the app refuses": [{ answer: B, refuses: true }, 0, 1],
};

/** What something that compresses HTML may do to a page. */
const REWRITES: Record<string, (html: string) => string> = {
  "no quotes": (html) => html.replaceAll('"', ""),
  "single quotes": (html) => html.replaceAll('"', "'"),
  "upper case": (html) => html.replace('<script id="', '<SCRIPT ID="'),
  "another order": (html) =>
    html.replace('id="__rep__"', "").replace(
      ">{",
      ' id="__rep__">{',
    ),
  "other entities": (html) =>
    html.replaceAll("&#34;", "&quot;").replaceAll("&#38;", "&amp;"),
  "an older page in a comment": (html) =>
    `<!-- <script id="__rep__" data-rep-build="OLD"></script> -->${html}`,
};

for (const [form, rewrite] of Object.entries(REWRITES)) {
  for (const build of ["A", "B", `a"b&c`]) {
    if (form.endsWith("quotes") && build.length > 1) continue;
    CASES[`build ${build} answers with ${form}`] = [
      {
        build: build.length > 1 ? build : "A",
        answer: { status: 200, build, rewrite },
      },
      build === "B" ? 1 : 0,
      1,
    ];
  }
}

for (const [name, [loss, reloads, requests]] of Object.entries(CASES)) {
  Deno.test(`a lost chunk while ${name}: ${reloads} reloads`, async () => {
    const result = await lose(loss);
    assertEquals([result.reloads, result.requests], [reloads, requests]);
  });
}

Deno.test("several chunks that are lost at once reload the page once, which is asked for past all caches", async () => {
  const { reloads, request, events } = await lose({ answer: B }, 3);
  assertEquals(reloads, 1);
  assertEquals(request, [
    "https://app.test/a?b",
    "no-store",
    { accept: "text/html", "rep-page": "1" },
  ]);
  assertEquals(events, [["rep:reload", { newBuild: "B", build: "A" }]]);
});
