/**
 * The client of a page, as it is bundled for pages without a bundler. The page, and everything else that a browser has,
 * is an argument of `createClient()`: its double records what the client does, and a test says what happens to it.
 */
import {
  assert,
  assertEquals,
  assertLessOrEqual,
  assertNotStrictEquals,
  assertRejects,
  assertStrictEquals,
} from "@std/assert";
import { encodeBase64 } from "@std/encoding/base64";
import { CLIENT_BR, CLIENT_GZIP, CLIENT_JS } from "../../src/client/bundle.ts";
import { type Client, createClient } from "../../src/client/client.ts";
import {
  type Browser,
  type PageEvent,
  REPError,
} from "../../src/client/page.ts";
import * as published from "../../src/client/mod.ts";
import { bundleClient } from "../../tools/bundle_client.ts";

const META = {
  version: "0.1.0",
  injected_at: "2026-02-18T14:30:00.000Z",
  integrity: "hmac-sha256:c2lnbmF0dXJl",
  key_endpoint: "/rep/session-key?kid=7",
  hot_reload: "/rep/changes?last_event_id=100",
  ttl: 0,
};
const VALUES = { API_URL: "https://api.example.com", EMPTY: "", FLAGS: "a,b" };
const PAYLOAD = { public: VALUES, _meta: META };

/** Returns the text of a page whose metadata differ in these fields; `undefined` leaves one out. */
function textWith(
  meta: Partial<Record<keyof typeof META, string | undefined>>,
) {
  return JSON.stringify({ ...PAYLOAD, _meta: { ...META, ...meta } });
}

/** A stream of changes, to which a test says what the browser and the gateway do. */
class FakeEventSource {
  readyState = 0;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly #listeners = new Map<
    string,
    (event: MessageEvent<string>) => void
  >();

  constructor(readonly url: string) {}

  /** The part of the URL in which the cursor is. */
  get search() {
    return new URL(this.url).search;
  }

  addEventListener(
    type: string,
    listener: (event: MessageEvent<string>) => void,
  ) {
    this.#listeners.set(type, listener);
  }

  close() {
    this.readyState = 2;
  }

  succeed() {
    this.readyState = 1;
    this.onopen?.();
  }

  /** The browser reconnects by itself. */
  reconnect() {
    this.readyState = 0;
    this.onerror?.();
  }

  /** The browser gives up, as after any status but 200. */
  fail() {
    this.readyState = 2;
    this.onerror?.();
  }

  update(key: string, value: string, lastEventId: string) {
    this.#send(
      "rep:config:update",
      { key, tier: "public", value },
      lastEventId,
    );
  }

  delete(key: string, lastEventId: string, value?: string) {
    this.#send(
      "rep:config:delete",
      { key, tier: "public", value },
      lastEventId,
    );
  }

  heartbeat(lastEventId: string) {
    this.#send("rep:heartbeat", {}, lastEventId);
  }

  tell(build: string, lastEventId: string) {
    this.#send("rep:build", { build }, lastEventId);
  }

  #send(type: string, data: object, lastEventId: string) {
    const event = new MessageEvent(type, {
      data: JSON.stringify(data),
      lastEventId,
    });
    this.#listeners.get(type)?.(event);
  }
}

/** What is special about the page of a test. */
interface FakePage {
  /** The text of the element with the payload; `undefined` for a page without it. @default {that of PAYLOAD} */
  text?: string | undefined;
  integrity?: string | null;
  /** The ID of the page's build. */
  build?: string;
  /** Responds to requests for a session key. @default {there is no network} */
  respond?: () => Promise<Response>;
  /** Whether the page has come over plain HTTP, and so has no `crypto.subtle`. */
  isInsecure?: boolean;
  random?: () => number;
  /** @default {"https://app.example.com"} */
  origin?: string;
  /** Whether the page starts hidden. */
  hidden?: boolean;
  /** @default {"complete"} */
  readyState?: string;
}

/** A timer that is not cleared. */
interface Timer {
  callback: () => void;
  ms: number;
}

/** `crypto.subtle`, and a function that waits until all hashes are computed and the client has seen them. */
function recordDigests() {
  const { subtle } = crypto;
  const digests: Promise<ArrayBuffer>[] = [];
  const digest: SubtleCrypto["digest"] = (algorithm, data) => {
    const hash = subtle.digest(algorithm, data);
    digests.push(hash);
    return hash;
  };
  return {
    subtle: {
      decrypt: subtle.decrypt.bind(subtle),
      importKey: subtle.importKey.bind(subtle) as SubtleCrypto["importKey"],
      digest,
    },
    async hashed() {
      await Promise.all(digests);
      await macrotask(); // after the promise reactions of the client
    },
  };
}

/** Creates a page and its client, and records the effects of the client. */
function open(page: FakePage = {}) {
  let text = "text" in page ? page.text : JSON.stringify(PAYLOAD);
  const sources: FakeEventSource[] = [];
  const requests: string[] = [];
  const warnings: string[] = [];
  const errors: unknown[] = [];
  const timers: Timer[] = [];
  const listeners = new Map<string, () => void>();
  const element = {
    get textContent() {
      return text ?? null;
    },
    getAttribute(name: string) {
      const { integrity = null, build = null } = page;
      return name === "data-rep-integrity"
        ? integrity
        : name === "data-rep-build"
        ? build
        : null;
    },
  };
  const document = {
    hidden: page.hidden ?? false,
    readyState: page.readyState ?? "complete",
    getElementById(id: string) {
      return id === "__rep__" && text !== undefined ? element : null;
    },
  };
  class EventSource extends FakeEventSource {
    constructor(url: string) {
      super(resolve(url));
      sources.push(this);
    }
  }
  const { subtle, hashed } = recordDigests();
  const noNetwork = () => Promise.reject(new TypeError("no network"));
  const client = createClient(
    {
      document,
      EventSource,
      crypto: page.isInsecure ? {} : { subtle },
      console: { warn: (message) => warnings.push(message) },
      Math: { random: page.random ?? (() => 0.5) },
      reportError: (error) => errors.push(error),
      location: { origin: page.origin ?? "https://app.example.com" },
      fetch(url) {
        requests.push(resolve(url));
        return (page.respond ?? noNetwork)();
      },
      addEventListener: (type, listener) => listeners.set(type, listener),
      performance: { now: () => 0 },
      setTimeout(callback, ms) {
        const timer = { callback, ms };
        timers.push(timer);
        return timer;
      },
      clearTimeout(timer) {
        const index = timers.indexOf(timer as Timer);
        if (index >= 0) timers.splice(index, 1);
      },
    } satisfies Browser,
  );
  return {
    client,
    sources,
    requests,
    warnings,
    errors,
    timers,
    hashed,
    /** The browser parses more of the document: the text of the element so far, and whether that was all. */
    parse(textSoFar: string | undefined, readyState = "loading") {
      text = textSoFar;
      document.readyState = readyState;
    },
    /** Runs the timers of a client that waits for the page. */
    async wait() {
      for (const { callback } of timers.splice(0)) callback();
      await macrotask();
    },
    dispatch(type: PageEvent) {
      listeners.get(type)?.();
    },
    setHidden(hidden: boolean) {
      document.hidden = hidden;
      listeners.get("visibilitychange")?.();
    },
    /** Runs the timers that are set for this delay. */
    runTimers(ms: number) {
      for (const timer of timers.filter((timer) => timer.ms === ms)) {
        timers.splice(timers.indexOf(timer), 1);
        timer.callback();
      }
    },
    /** Waits until the client sets a timer, and runs it. */
    async runNextTimer() {
      while (timers.length === 0) await macrotask();
      timers[0]?.callback();
    },
  };
}

/** Opens a page with a subscriber, and so with a stream. */
function subscribe(page: FakePage = {}) {
  const opened = open(page);
  const changes: (string | undefined)[][] = [];
  const stop = opened.client.onAnyChange((...change) => changes.push(change));
  const [source] = opened.sources;
  return { ...opened, source: source!, changes, stop };
}

/** Resolves a URL as browsers do, in a page with a `<base>` element that names another origin. */
function resolve(url: string) {
  return new URL(url, "https://evil.example/base/").href;
}

function macrotask() {
  return new Promise((resolve) => setTimeout(resolve));
}

/** Encrypts like the gateway, and returns the text of the page and the responder of the session key endpoint. */
async function encrypt(
  sensitive: Record<string, string>,
  additionalText = META.integrity,
) {
  const rawKey = crypto.getRandomValues(new Uint8Array(32));
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const key = await crypto.subtle.importKey("raw", rawKey, "AES-GCM", false, [
    "encrypt",
  ]);
  const additionalData = new TextEncoder().encode(additionalText);
  const ciphertext = await crypto.subtle.encrypt(
    { name: "AES-GCM", iv, additionalData },
    key,
    new TextEncoder().encode(JSON.stringify(sensitive)),
  );
  const blob = new Uint8Array([...iv, ...new Uint8Array(ciphertext)]);
  const sessionKey = {
    key: encodeBase64(rawKey),
    expires_at: "2026-02-18T14:30:30.000Z",
  };
  return {
    text: JSON.stringify({ ...PAYLOAD, sensitive: encodeBase64(blob) }),
    respond: () => Promise.resolve(Response.json(sessionKey)),
  };
}

/** Responds with a status, as often as it is asked. */
function respondWith(status: number, headers: HeadersInit = {}) {
  return () => Promise.resolve(new Response(null, { status, headers }));
}

/** Responds once with each of these, in this order. */
function inTurns(...responders: (() => Promise<Response>)[]) {
  return () =>
    responders.shift()?.() ?? Promise.reject(new Error("one request too many"));
}

async function rejectionOf({ client }: { client: Client }, name: string) {
  return await assertRejects(() => client.getSecure(name), REPError);
}

async function integrityOf(text: string) {
  const bytes = new TextEncoder().encode(text);
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return `sha256-${encodeBase64(digest)}`;
}

async function assertUnavailable(client: Client) {
  assertEquals(client.get("API_URL"), undefined);
  assertEquals(client.get("API_URL", "default"), "default");
  assertEquals({ ...client.getAll() }, {});
  assertEquals(client.verify(), false);
  assertEquals(client.meta(), null);
  assertEquals(client.status(), {
    state: "closed",
    transport: "stream",
    lastEventId: null,
    newBuild: undefined,
  });
  const { message } = await rejectionOf({ client }, "TOKEN");
  assertEquals(message, 'Cannot find "TOKEN" among the SENSITIVE variables');
}

// The page.

Deno.test("createClient() makes no network requests", async () => {
  const { client, sources, requests } = open(await encrypt({ TOKEN: "t" }));
  client.get("API_URL");
  client.getAll();
  client.verify();
  client.meta();
  client.status();
  client.onStatus(() => {});
  assertEquals([sources, requests], [[], []]);
});

Deno.test("createClient() returns an unavailable client for a page without a payload", async () => {
  const page = open({ text: undefined });
  await assertUnavailable(page.client);
  page.client.onChange("API_URL", () => {})();
  assertEquals([page.errors, page.requests, page.sources], [[], [], []]);
  assertEquals(page.warnings, [NO_CONFIGURATION]);
});

const NO_CONFIGURATION =
  "[REP] Cannot find the page's configuration: expected __rep__ from the gateway";

Deno.test("a page without configuration says so once, and only to code that reads", () => {
  const readers: ((client: Client) => void)[] = [
    ({ get }) => get("API_URL", "default"),
    ({ getAll }) => getAll(),
    ({ onChange }) => onChange("API_URL", () => {}),
    ({ onAnyChange }) => onAnyChange(() => {}),
  ];
  for (const read of readers) {
    const { client, warnings } = open({ text: undefined });
    client.verify();
    client.meta();
    client.status();
    assertEquals(warnings, []);
    read(client);
    read(client);
    assertEquals(warnings, [NO_CONFIGURATION]);
  }
});

Deno.test("a page in development says once of a name that it does not exist, unless it has a default", () => {
  const warning = (name: string) =>
    `[REP] Cannot find "${name}" among the PUBLIC variables`;
  for (const origin of ["http://localhost:5173", "https://app.localhost"]) {
    const { client, warnings } = open({ origin });
    for (const name of ["API_URL", "EMPTY", "TITEL", "TITEL", "OTHER"]) {
      client.get(name);
    }
    client.get("THEME", "dark");
    assertEquals(warnings, [warning("TITEL"), warning("OTHER")]);
  }
  const { client, warnings } = open();
  client.get("TITEL");
  assertEquals(warnings, []);
});

Deno.test("nothing is said without a document, as on servers and in workers", () => {
  const warnings: string[] = [];
  const console = { warn: (message: string) => warnings.push(message) };
  const worker = { ...globalThis, document: undefined, console };
  const { get, onChange } = createClient(worker as unknown as Browser);
  assertEquals(get("API_URL"), undefined);
  onChange("API_URL", () => {})();
  assertEquals(warnings, []);
});

Deno.test("createClient() reports a malformed payload and ignores it", async () => {
  const withoutMeta = JSON.stringify({ public: {} });
  const withoutPublic = JSON.stringify({ _meta: META });
  const withoutUrl = textWith({ hot_reload: "https://[" });
  const malformed = [withoutMeta, withoutPublic, withoutUrl];
  for (const text of ["", "{", "null", "3", ...malformed]) {
    const { client, errors, warnings } = open({ text });
    await assertUnavailable(client);
    const message = "Cannot read the page's configuration";
    assertEquals(errors.map(String), [`REPError: ${message}`], text);
    assertEquals(warnings, [`[REP] ${message}`], text);
  }
});

// A script that runs before the browser has parsed the configuration.

const TOO_EARLY =
  "[REP] Cannot get values before the page's configuration: expected defer";
const TEXT = JSON.stringify(PAYLOAD);

/** Opens a page of which the browser has parsed nothing yet. */
function openEarly() {
  return open({ text: undefined, readyState: "loading" });
}

Deno.test("each function looks again while the document is loading, also if the element is not complete", async () => {
  const readers: Record<string, [(client: Client) => unknown, unknown]> = {
    get: [({ get }) => get("FLAGS", "none"), "a,b"],
    getAll: [({ getAll }) => getAll().FLAGS, "a,b"],
    verify: [({ verify }) => verify(), true],
    meta: [({ meta }) => meta()?.publicCount, 3],
    onChange: [({ onChange, status }) => {
      onChange("FLAGS", () => {});
      return status().state;
    }, "connecting"],
  };
  for (const [name, [read, expected]] of Object.entries(readers)) {
    for (const soFar of [undefined, "", TEXT.slice(0, 30), TEXT.slice(0, -1)]) {
      const page = openEarly();
      page.parse(soFar);
      assertNotStrictEquals(read(page.client), expected);
      page.parse(TEXT);
      assertStrictEquals(read(page.client), expected, name);
      assertEquals(page.errors, []);
      await page.wait();
    }
  }
});

Deno.test("a script that reads too early is told so, once the configuration is there", async () => {
  const page = openEarly();
  assertEquals(page.client.get("FLAGS", "none"), "none");
  page.client.getAll();
  await page.wait();
  assertEquals(page.warnings, []); // it may also be missing
  page.parse(TEXT);
  await page.wait();
  assertEquals(page.warnings, [TOO_EARLY]);
  assertEquals(page.client.get("FLAGS", "none"), "a,b");
  assertEquals([page.timers, page.errors], [[], []]);
});

Deno.test("when the document is parsed, the client says what is wrong, and looks no more", async () => {
  for (
    const [text, warning, errors] of [
      [undefined, NO_CONFIGURATION, 0],
      ["{", "[REP] Cannot read the page's configuration", 1],
    ] as const
  ) {
    const page = openEarly();
    page.client.get("FLAGS");
    const secret = assertRejects(() => page.client.getSecure("A"), REPError);
    page.parse(text, "interactive");
    await page.wait();
    await secret;
    page.parse(TEXT, "complete");
    assertEquals(page.client.get("FLAGS"), undefined);
    assertEquals(page.warnings, [warning]);
    assertEquals([page.errors.length, page.timers], [errors, []]);
  }
});

Deno.test("a document that is parsed, or that a worker does not have, is looked at once", async () => {
  for (const readyState of ["interactive", "complete"]) {
    const page = open({ text: undefined, readyState });
    page.parse(TEXT, readyState);
    assertEquals([page.client.meta(), page.timers], [null, []]);
    await rejectionOf(page, "A");
  }
  const timers: unknown[] = [];
  const setTimeout = (...timer: unknown[]) => timers.push(timer);
  const worker = { ...globalThis, document: undefined, setTimeout };
  const client = createClient(worker as unknown as Browser);
  assertEquals([client.meta(), timers], [null, []]);
});

Deno.test("who subscribes too early is called with each value, and follows the changes", async () => {
  const page = openEarly();
  const changes: unknown[] = [];
  const flags: unknown[] = [];
  page.client.onAnyChange((...change) => changes.push(change));
  page.client.onChange("FLAGS", (...values) => flags.push(values));
  page.client.onChange("FLAGS", () => flags.push("ended"))();
  await page.wait();
  page.parse(TEXT);
  assertEquals(page.client.get("FLAGS"), "a,b");
  assertEquals([changes, page.sources], [[], []]); // not during the call of get(), which may be a rendering
  await page.wait();
  await page.wait();
  const expected = Object.entries(VALUES).map((entry) => [...entry, undefined]);
  assertEquals([changes, flags], [expected, [["a,b", undefined]]]);
  const [source] = page.sources;
  source?.update("FLAGS", "c", "101");
  assertEquals(flags.at(-1), ["c", "a,b"]);
  assertEquals([page.sources.length, page.warnings], [1, []]);
});

Deno.test("who subscribes too early in a page without hot reload gets the values, and the warning", async () => {
  const page = openEarly();
  const seen: unknown[] = [];
  page.client.onChange("FLAGS", (value) => seen.push(value));
  page.parse(textWith({ hot_reload: undefined }));
  await page.wait();
  await page.wait();
  assertEquals(seen, ["a,b"]);
  assertEquals(page.warnings, ["[REP] Cannot get changes: no hot reload"]);
});

Deno.test("getSecure() waits for the configuration", async () => {
  const { text, respond } = await encrypt({ TOKEN: "t" });
  const page = open({ text: undefined, readyState: "loading", respond });
  const token = page.client.getSecure("TOKEN");
  await page.wait();
  assertEquals(page.requests, []);
  page.parse(text);
  await page.wait();
  assertEquals(await token, "t");
});

Deno.test("verify() also checks a configuration that was found late", async () => {
  const page = open({
    text: undefined,
    readyState: "loading",
    integrity: "sha256-",
  });
  page.parse(TEXT);
  assertEquals(page.client.verify(), true);
  await page.hashed();
  assertEquals(page.client.verify(), false);
});

Deno.test("get() returns the value, else the default, else undefined", () => {
  const { get } = open().client;
  assertEquals(get("API_URL"), "https://api.example.com");
  assertEquals(get("API_URL", "http://localhost"), "https://api.example.com");
  assertEquals(get("EMPTY", "default"), "");
  assertEquals(get("MISSING", "default"), "default");
  assertEquals(get("MISSING"), undefined);
});

Deno.test("get() and getAll() do not find properties that all objects have", () => {
  const { get, getAll } = open().client;
  const inherited = ["toString", "constructor", "hasOwnProperty", "__proto__"];
  for (const name of inherited) {
    assertEquals([get(name), getAll()[name]], [undefined, undefined], name);
  }
});

Deno.test("get() accepts __proto__ as a name", () => {
  const meta = JSON.stringify(META);
  const text = `{"public":{"__proto__":"own","A":"1"},"_meta":${meta}}`;
  const { client, source } = subscribe({ text });
  assertEquals(client.get("__proto__"), "own");
  source.update("__proto__", "changed", "101");
  source.update("B", "2", "102");
  assertEquals(Object.entries(client.getAll()), [
    ["__proto__", "changed"],
    ["A", "1"],
    ["B", "2"],
  ]);
});

Deno.test("getAll() returns a frozen object, which a change replaces", () => {
  const { client: { getAll }, source } = subscribe();
  const before = getAll();
  assert(Object.isFrozen(before));
  assertStrictEquals(getAll(), before);
  source.update("FLAGS", "c", "101");
  assertNotStrictEquals(getAll(), before);
  assertEquals<Record<string, string>>({ ...before }, VALUES);
  assertEquals({ ...getAll() }, { ...VALUES, FLAGS: "c" });
  assert(Object.isFrozen(getAll()));
});

Deno.test("meta() describes the current configuration", async () => {
  const { client, source } = subscribe(await encrypt({ TOKEN: "t" }));
  const meta = {
    version: "0.1.0",
    injectedAt: new Date(META.injected_at),
    integrityValid: true,
    publicCount: 3,
    sensitiveAvailable: true,
    hotReloadAvailable: true,
  };
  assertEquals(client.meta(), meta);
  source.delete("FLAGS", "101");
  assertEquals(client.meta(), { ...meta, publicCount: 2 });
});

Deno.test("meta() reports missing features of a page", () => {
  const { client } = open({
    text: textWith({ hot_reload: undefined, key_endpoint: undefined }),
  });
  const { sensitiveAvailable, hotReloadAvailable } = client.meta() ?? {};
  assertEquals([sensitiveAvailable, hotReloadAvailable], [false, false]);
});

Deno.test("verify() returns true if the hash of the text is correct", async () => {
  const text = JSON.stringify({ ...PAYLOAD, public: { NAME: "Zoë \\u003c" } });
  const page = open({ text, integrity: await integrityOf(text) });
  assertEquals(page.client.verify(), true); // before the hash is computed
  await page.hashed();
  assertEquals(page.client.verify(), true);
  assertEquals(page.client.meta()?.integrityValid, true);
  assertEquals(page.errors, []);
});

Deno.test("verify() returns false if the hash of the text is incorrect, which is reported", async () => {
  const text = JSON.stringify(PAYLOAD);
  const ofOtherText = await integrityOf(`${text} `);
  for (const integrity of [ofOtherText, "sha256-", "md5-abc"]) {
    const page = open({ text, integrity });
    await page.hashed();
    assertEquals(page.client.verify(), false);
    assertEquals(page.client.meta()?.integrityValid, false);
    assertEquals(page.errors.map(String), [
      "REPError: Cannot verify the page's configuration",
    ]);
  }
});

Deno.test("verify() returns true over plain HTTP", async () => {
  const page = open({ integrity: "sha256-", isInsecure: true });
  await page.hashed();
  assertEquals([page.client.verify(), page.errors], [true, []]);
});

// SENSITIVE variables.

Deno.test("getSecure() decrypts the values of the gateway", async () => {
  const values = { TOKEN: "s3cret Zoë", EMPTY: "" };
  const { client, requests } = open(await encrypt(values));
  assertEquals(await client.getSecure("TOKEN"), "s3cret Zoë");
  assertEquals(await client.getSecure("EMPTY"), "");
  assertEquals(requests, ["https://app.example.com/rep/session-key?kid=7"]);
});

Deno.test("getSecure() makes one request for all callers", async () => {
  const page = open(await encrypt({ A: "1", B: "2" }));
  const { getSecure } = page.client;
  const values = [getSecure("A"), getSecure("B"), getSecure("A")];
  assertEquals(await Promise.all(values), ["1", "2", "1"]);
  assertEquals(page.requests.length, 1);
});

Deno.test("getSecure() rejects for a name that is not set, and requests no key if nothing is encrypted", async () => {
  const encrypted = open(await encrypt({ A: "1" }));
  const plain = open();
  for (const name of ["MISSING", "toString", "__proto__", "API_URL"]) {
    const message = `Cannot find "${name}" among the SENSITIVE variables`;
    assertEquals((await rejectionOf(encrypted, name)).message, message);
    assertEquals((await rejectionOf(plain, name)).message, message);
  }
  assertEquals(await encrypted.client.getSecure("A"), "1");
  assertEquals(plain.requests, []);
});

Deno.test("getSecure() rejects with what the gateway says of the rejected key, else with the status", async () => {
  const { text } = await encrypt({ A: "1" });
  const detail = "Cannot issue a session key: the page is too old";
  const problem = Response.json({ status: 410, detail }, { status: 410 });
  const messages = [
    [problem, detail],
    [new Response("<h1>", { status: 502 }), "Cannot get the session key: 502"],
    [new Response("<h1>"), "Cannot get the session key: 200"], // another server's page
    [Response.json({}, { status: 404 }), "Cannot get the session key: 404"],
  ] as const;
  for (const [response, expected] of messages) {
    const page = open({ text, respond: () => Promise.resolve(response) });
    assertEquals((await rejectionOf(page, "A")).message, expected);
  }
});

Deno.test("getSecure() waits once as long as a 429 says, at most a minute, and says so", async () => {
  const secondsByHeader = {
    "17": 17,
    "3600": 60,
    "Sun, 06 Nov 1994 08:49:37 GMT": 0, // the gateway sends no date
  };
  for (const [header, seconds] of Object.entries(secondsByHeader)) {
    const { text, respond } = await encrypt({ A: "1" });
    const rejected = respondWith(429, { "retry-after": header });
    const page = open({ text, respond: inTurns(rejected, respond) });
    const value = page.client.getSecure("A");
    await page.runNextTimer();
    assertEquals(await value, "1");
    const pause = seconds + 2.5; // the random part: 0.5 × 5 s
    assertEquals(page.timers.map(({ ms }) => ms), [pause * 1_000]);
    const warning = `[REP] Waiting ${Math.ceil(pause)} s for a session key`;
    assertEquals(page.warnings, [warning]);
  }
});

Deno.test("getSecure() rejects if the second request is too early as well", async () => {
  const { text } = await encrypt({ A: "1" });
  const page = open({ text, respond: respondWith(429) });
  const rejection = rejectionOf(page, "A");
  await page.runNextTimer();
  assertEquals((await rejection).message, "Cannot get the session key: 429");
  assertEquals(page.requests.length, 2);
});

Deno.test("getSecure() tries again after a failure", async () => {
  const { text, respond } = await encrypt({ A: "1" });
  const page = open({ text, respond: inTurns(respondWith(503), respond) });
  await Promise.all([rejectionOf(page, "A"), rejectionOf(page, "A")]);
  assertEquals(await page.client.getSecure("A"), "1");
  assertEquals(page.requests.length, 2);
});

Deno.test("getSecure() rejects with the cause of a failure", async () => {
  const { text, respond } = await encrypt({ A: "1" });
  const { respond: withOtherKey } = await encrypt({ A: "1" });
  const withOtherToken = await encrypt({ A: "1" }, "hmac-sha256:other");
  const cases = [
    [{ text, respond: withOtherKey }, "OperationError"],
    [withOtherToken, "OperationError"],
    [{ text }, "TypeError"],
  ] as const;
  assertEquals(await open({ text, respond }).client.getSecure("A"), "1");
  for (const [page, cause] of cases) {
    const error = await rejectionOf(open(page), "A");
    assertEquals(error.message, "Cannot get the SENSITIVE variables");
    assertEquals((error.cause as Error).name, cause);
  }
});

Deno.test("getSecure() rejects outside a secure context without requesting a key", async () => {
  const page = open({ ...await encrypt({ A: "1" }), isInsecure: true });
  const { message } = await rejectionOf(page, "A");
  assertEquals(message, "Cannot decrypt without HTTPS or localhost");
  assertEquals(page.requests, []);
});

// Changes.

Deno.test("onChange() opens one stream for all subscribers, at the cursor of the page", () => {
  const { client, sources } = open();
  client.onChange("A", () => {});
  client.onChange("B", () => {});
  client.onAnyChange(() => {});
  assertEquals(sources.map(({ url }) => url), [
    "https://app.example.com/rep/changes?last_event_id=100&heartbeat=event",
  ]);
});

Deno.test("onChange() is called for its variable, onAnyChange() for all of them", () => {
  const { client, source, changes } = subscribe();
  const flags: (string | undefined)[][] = [];
  client.onChange("FLAGS", (...change) => flags.push(change));
  source.update("FLAGS", "c", "101");
  source.update("NEW", "n", "102");
  source.delete("FLAGS", "103");
  assertEquals(changes, [
    ["FLAGS", "c", "a,b"],
    ["NEW", "n", undefined],
    ["FLAGS", undefined, "c"],
  ]);
  assertEquals(flags, [["c", "a,b"], [undefined, "c"]]);
  const { FLAGS: _, ...others } = VALUES;
  assertEquals({ ...client.getAll() }, { ...others, NEW: "n" });
});

Deno.test("onAnyChange() is not called for values that do not change", () => {
  const { source, changes } = subscribe();
  source.update("FLAGS", "a,b", "101");
  source.delete("toString", "102");
  assertEquals(changes, []);
});

Deno.test("onAnyChange() ignores the value of a delete event", () => {
  const { source, changes } = subscribe();
  source.delete("FLAGS", "101", "");
  assertEquals(changes, [["FLAGS", undefined, "a,b"]]);
});

Deno.test("onAnyChange() reports an error of a callback and calls the others", () => {
  const { client, sources, errors } = open();
  client.onAnyChange(() => {
    throw new Error("mine");
  });
  const keys: string[] = [];
  client.onAnyChange((key) => keys.push(key));
  sources[0]?.update("FLAGS", "c", "101");
  assertEquals([keys, errors.map(String)], [["FLAGS"], ["Error: mine"]]);
  assertEquals(client.status().lastEventId, "101");
});

Deno.test("onAnyChange() calls a callback once per subscription", () => {
  const { client, sources } = open();
  const values: unknown[] = [];
  const callback = (_: string, value?: string) => void values.push(value);
  const stopFirst = client.onAnyChange(callback);
  client.onAnyChange(callback);
  sources[0]?.update("A", "1", "101");
  stopFirst();
  stopFirst();
  sources[0]?.update("A", "2", "102");
  assertEquals(values, ["1", "1", "2"]);
});

Deno.test("onChange() closes the stream with the last subscription, and reopens it at its cursor", () => {
  const { client, sources } = open();
  const stopFirst = client.onChange("A", () => {});
  const stopSecond = client.onChange("B", () => {});
  sources[0]?.succeed();
  sources[0]?.update("A", "1", "101");
  stopFirst();
  assertEquals(sources[0]?.readyState, 1);
  stopSecond();
  assertEquals(sources[0]?.readyState, 2);
  stopSecond();
  client.onChange("A", () => {});
  assertEquals(sources.map(({ search }) => search), [
    "?last_event_id=100&heartbeat=event",
    "?last_event_id=101&heartbeat=event",
  ]);
});

Deno.test("onChange() warns without hot reload, and opens no stream", () => {
  const page = open({ text: textWith({ hot_reload: undefined }) });
  page.client.onChange("A", () => {})();
  page.client.onAnyChange(() => {})();
  assertEquals(page.sources, []);
  const warning = "[REP] Cannot get changes: no hot reload";
  assertEquals(page.warnings, [warning]);
});

Deno.test("onChange() works with a gateway whose pages contain no cursor", () => {
  const text = textWith({ hot_reload: "/rep/changes?site=a" });
  const { client, sources, dispatch } = subscribe({ text });
  assertEquals(client.status().lastEventId, null);
  sources[0]?.update("A", "1", "");
  dispatch("online");
  sources[1]?.update("A", "2", "101");
  dispatch("online");
  const searches = sources.map(({ search }) => search);
  assertEquals(searches, ["?site=a", "?site=a", "?site=a&last_event_id=101"]);
});

// The stream.

Deno.test("the stream is not reopened while the browser reconnects", () => {
  const { client, source, sources, timers } = subscribe();
  source.reconnect();
  assertEquals(sources.length, 1);
  assertEquals(timers.map(({ ms }) => ms), [80_000]); // no gateway wants a longer pause
  assertEquals(client.status().state, "connecting");
});

/** Returns the pauses of a stream that never opens. */
function pausesMs(random: () => number): number[] {
  const { sources, timers } = subscribe({ random });
  const pauses: number[] = [];
  for (let attempt = 0; attempt < 7; attempt++) {
    sources.at(-1)?.fail();
    const [pause] = timers;
    pauses.push(pause!.ms);
    pause!.callback();
  }
  assertEquals(sources.length, 8);
  return pauses;
}

Deno.test("the stream is reopened with exponential backoff and jitter when the browser does not reconnect", () => {
  const longest = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
  assertEquals(pausesMs(() => 1), longest);
  assertEquals(pausesMs(() => 0), longest.map((ms) => ms / 2));
});

Deno.test("the backoff is reset once the stream has a heartbeat", () => {
  const { sources, timers, runTimers } = subscribe();
  sources[0]?.fail();
  runTimers(750);
  sources[1]?.succeed();
  sources[1]?.heartbeat("107");
  sources[1]?.reconnect();
  sources[1]?.fail();
  assertEquals(timers.map(({ ms }) => ms), [750]);
});

Deno.test("a stream that is not found or blocked says so once, at its second failure, with what may be wrong", () => {
  const { sources, timers, warnings } = subscribe();
  for (let count = 0; count < 4; count++) {
    assertEquals(warnings.length, count < 2 ? 0 : 1);
    sources[count]?.fail();
    timers[0]?.callback();
  }
  assertEquals(warnings, [
    "[REP] Cannot get changes: expected --base-path, no blocker",
  ]);
});

Deno.test("a stream that ends says nothing if the next one has a heartbeat, as when a gateway restarts", () => {
  const { sources, timers, warnings } = subscribe();
  for (let count = 0; count < 8; count += 2) {
    sources[count]?.fail();
    timers[0]?.callback();
    sources[count + 1]?.succeed();
    sources[count + 1]?.heartbeat("107");
    sources[count + 1]?.fail();
    timers[0]?.callback();
  }
  assertEquals(warnings, []);
});

Deno.test("the stream resumes at the last id when it is reopened", () => {
  const { sources, timers } = subscribe();
  sources[0]?.delete("FLAGS", "105");
  sources[0]?.fail();
  timers[0]?.callback();
  assertEquals(sources[1]?.search, "?last_event_id=105&heartbeat=event");
});

Deno.test("the stream is not reopened once nobody wants it", () => {
  const { source, timers, stop } = subscribe();
  source.fail();
  stop();
  assertEquals(timers, []);
});

Deno.test("when the network is back, the page polls at once, and then opens a stream", () => {
  const { client, source, sources, dispatch } = subscribe();
  source.succeed();
  dispatch("online");
  assertEquals(source.readyState, 2);
  assertEquals(sources[1]?.search, "?last_event_id=100&heartbeat=event&poll");
  assertEquals(client.status().transport, "poll");
  sources[1]?.succeed();
  sources[1]?.heartbeat("100");
  sources[1]?.reconnect();
  assertEquals(sources[2]?.search, "?last_event_id=100&heartbeat=event");
  assertEquals(client.status().transport, "stream");
});

Deno.test("after two mute streams the page polls, and each attempt resumes at the cursor", () => {
  const { client, sources, timers, runTimers } = subscribe();
  sources[0]?.succeed();
  sources[0]?.update("A", "1", "101");
  runTimers(45_000);
  assertEquals(sources[0]?.readyState, 2);
  assertEquals(client.status().state, "connecting");
  runTimers(375);
  sources[1]?.succeed();
  runTimers(20_000);
  runTimers(750);
  const { state, transport } = client.status();
  assertEquals([state, transport], ["connecting", "poll"]);
  assertEquals(sources.map(({ search }) => search), [
    "?last_event_id=100&heartbeat=event",
    "?last_event_id=101&heartbeat=event",
    "?last_event_id=101&heartbeat=event&poll",
  ]);
  assertEquals(timers.map(({ ms }) => ms), [30_000]);
});

Deno.test("a heartbeat is a sign of life, moves the cursor, and changes no value", () => {
  const { client, source, timers, changes } = subscribe({
    text: JSON.stringify({ public: { undefined: "1" }, _meta: META }),
  });
  source.heartbeat("107");
  assertEquals(timers.map(({ ms }) => ms), [45_000]);
  assertEquals(client.status().lastEventId, "107");
  assertEquals(changes, []);
});

Deno.test("a gateway whose pages contain no cursor is not asked for heartbeats, nor given up", () => {
  const text = textWith({ hot_reload: "/rep/changes" });
  const { client, sources, timers, dispatch } = subscribe({ text });
  assertEquals([sources[0]?.search, timers], ["", []]);
  sources[0]?.succeed();
  dispatch("online");
  sources[1]?.reconnect();
  assertEquals([sources[1]?.search, timers], ["", []]);
  assertEquals(client.status().transport, "stream");
});

Deno.test("the stream is closed for the back/forward cache; after it the page polls, and then resumes", () => {
  const { client, source, sources, timers, dispatch } = subscribe();
  dispatch("pageshow"); // fired for a new page, too
  source.succeed();
  source.update("A", "1", "101");
  dispatch("pagehide");
  assertEquals([source.readyState, client.status().state], [2, "closed"]);
  assertEquals(timers, []);
  dispatch("pageshow");
  assertEquals(sources.map(({ search }) => search), [
    "?last_event_id=100&heartbeat=event",
    "?last_event_id=101&heartbeat=event&poll",
  ]);
});

Deno.test("the stream is closed 1.5 s after the page is hidden; when it is shown, the page polls, and then resumes", () => {
  const { client, source, sources, timers, setHidden, runTimers } = subscribe();
  source.succeed();
  source.update("A", "1", "101");
  setHidden(true);
  assertEquals(source.readyState, 1);
  runTimers(1_500);
  assertEquals(source.readyState, 2);
  assertEquals(timers, []);
  assertEquals(client.status(), {
    state: "closed",
    transport: "stream",
    lastEventId: "101",
    newBuild: undefined,
  });
  setHidden(false);
  runTimers(0);
  sources[1]?.succeed();
  sources[1]?.update("A", "2", "102");
  sources[1]?.reconnect();
  assertEquals(sources.map(({ search }) => search), [
    "?last_event_id=100&heartbeat=event",
    "?last_event_id=101&heartbeat=event&poll",
    "?last_event_id=102&heartbeat=event",
  ]);
});

Deno.test("the stream stays open if the page is shown again at once", () => {
  const { sources, setHidden, runTimers } = subscribe();
  setHidden(true);
  setHidden(false);
  runTimers(0);
  runTimers(1_500);
  assertEquals(sources.map(({ readyState }) => readyState), [0]);
});

Deno.test("a page that starts hidden polls when it is shown", () => {
  const page = subscribe({ hidden: true });
  page.dispatch("pageshow");
  page.dispatch("online");
  assertEquals(page.sources, []);
  page.setHidden(false);
  page.runTimers(0);
  assertEquals(page.sources.length, 1);
});

Deno.test("listenInBackground() keeps the stream of a hidden page open", () => {
  const page = subscribe({ hidden: true });
  page.client.listenInBackground();
  page.setHidden(true);
  page.runTimers(0);
  assertEquals(page.sources.map(({ readyState }) => readyState), [0]);
});

/** A page of a gateway with `--poll 30s`. */
function subscribeToPolls(page: FakePage = {}) {
  const hot_reload =
    "/app/rep/changes?last_event_id=100&state=0123456789abcdef";
  const text = JSON.stringify({
    ...PAYLOAD,
    _meta: { ...META, hot_reload, poll: 30 },
  });
  return subscribe({ text, ...page });
}

Deno.test("with an interval, the client ends each poll, and its URL is the cursor and the interval alone", () => {
  const { client, sources, timers, changes, runTimers } = subscribeToPolls();
  for (const [index, cursor] of ["100", "101", "101"].entries()) {
    const source = sources[index]!;
    const url = `https://app.example.com/app/rep/changes`;
    assertEquals(source.url, `${url}?last_event_id=${cursor}&poll=30`);
    source.succeed();
    assertEquals(client.status().state, "open");
    source.heartbeat(cursor);
    if (index === 0) source.update("A", "1", "101");
    source.reconnect();
    assertEquals(source.readyState, 2); // so that the browser does not reconnect
    assertEquals(client.status(), {
      state: "connecting",
      transport: "poll",
      lastEventId: "101",
      newBuild: undefined,
    });
    assertEquals(timers.map(({ ms }) => ms), [30_000]);
    runTimers(30_000);
  }
  assertEquals(changes, [["A", "1", undefined]]);
});

Deno.test("with an interval, a hidden page does not poll, and polls at once when it is shown or online again", () => {
  const page = subscribeToPolls();
  const polls = () => page.sources.length;
  const end = () => {
    page.sources.at(-1)?.succeed();
    page.sources.at(-1)?.heartbeat("100");
    page.sources.at(-1)?.reconnect();
  };
  end();
  page.setHidden(true);
  page.runTimers(1_500);
  assertEquals([page.timers, page.client.status().state], [[], "closed"]);
  page.dispatch("online");
  assertEquals(polls(), 1);
  page.setHidden(false);
  page.runTimers(0);
  assertEquals(polls(), 2);
  end();
  page.dispatch("online");
  assertEquals(polls(), 3);
  end();
  page.dispatch("pagehide");
  page.dispatch("pageshow");
  assertEquals(polls(), 4);
  end();
  assertEquals(page.timers.map(({ ms }) => ms), [30_000]);
});

Deno.test("with an interval, a rejected poll is repeated later and later", () => {
  const { sources, timers, warnings } = subscribeToPolls();
  sources[0]?.fail();
  assertEquals(timers.map(({ ms }) => ms), [22_500]);
  timers[0]?.callback();
  sources[1]?.fail();
  assertEquals(timers.map(({ ms }) => ms), [22_500]);
  assertEquals(warnings.length, 1);
});

Deno.test("the stream is not opened by events of the page without subscribers", () => {
  const { client, sources, dispatch } = open();
  dispatch("pageshow");
  dispatch("online");
  client.onChange("A", () => {})();
  dispatch("pageshow");
  dispatch("online");
  assertEquals(sources.length, 1);
});

Deno.test("onStatus() is called with the state of the stream until the subscription ends", () => {
  const { client, sources, timers } = open();
  const statuses: string[] = [];
  const stop = client.onStatus(({ state, lastEventId }) => {
    statuses.push(`${state} ${lastEventId}`);
  });
  const unsubscribe = client.onChange("A", () => {});
  sources[0]?.succeed();
  sources[0]?.update("A", "1", "101");
  sources[0]?.fail();
  timers[0]?.callback();
  sources[1]?.succeed();
  unsubscribe();
  stop();
  client.onChange("A", () => {});
  assertEquals(statuses, [
    "connecting 100",
    "open 100",
    "open 101",
    "connecting 101", // the pause
    "connecting 101", // the second attempt
    "open 101",
    "closed 101",
  ]);
});

// The module, and its bundle.

Deno.test("mod.ts exports the interface of REP's SDK, individually and as one object", () => {
  const { REPError: error, default: byDefault, rep, ...functions } = published;
  assertStrictEquals(byDefault, rep);
  assertStrictEquals(error, REPError);
  assertEquals(Object.keys(functions).sort(), [
    "get",
    "getAll",
    "getSecure",
    "listenInBackground",
    "meta",
    "onAnyChange",
    "onChange",
    "onStatus",
    "status",
    "verify",
  ]);
  assertEquals({ ...functions }, { ...rep });
});

Deno.test("mod.ts exports an unavailable client outside a page", async () => {
  await assertUnavailable(published.rep);
});

Deno.test("CLIENT_JS is the current output of bundle_client.ts", async () => {
  const hint = "run `deno run -A tools/bundle_client.ts`";
  assertEquals(CLIENT_JS, await bundleClient(), hint);
});

Deno.test("CLIENT_JS is a module with the exports of mod.ts and without imports", async () => {
  const url = `data:text/javascript,${encodeURIComponent(CLIENT_JS)}`;
  const module = await import(url);
  assertEquals(Object.keys(module).sort(), Object.keys(published).sort());
});

Deno.test("the client appends the page's build to the URL of its stream, and status() says which build has replaced it", () => {
  const page = open({
    text: textWith({ hot_reload: "/rep/changes?last_event_id=1&state=s" }),
    build: "a b",
  });
  page.client.onAnyChange(() => {});
  const [stream] = page.sources;
  assertEquals(
    stream?.search,
    "?last_event_id=1&state=s&build=a+b&heartbeat=event",
  );
  const seen: unknown[] = [];
  page.client.onStatus(({ newBuild }) => seen.push(newBuild));
  stream?.succeed();
  stream?.tell("B", "1");
  stream?.heartbeat("1");
  const { lastEventId, newBuild } = page.client.status();
  assertEquals([lastEventId, newBuild], ["1", "B"]);
  assertEquals(seen, [undefined, "B", "B"]);
});

Deno.test("the stream of a page without a build is requested as before, and REP's own gateway knows none", () => {
  const page = open({
    text: textWith({ hot_reload: "/rep/changes?last_event_id=1" }),
  });
  page.client.onAnyChange(() => {});
  assertEquals(
    page.sources.map(({ search }) => search),
    ["?last_event_id=1&heartbeat=event"],
  );
  assertEquals(page.client.status().newBuild, undefined);
});

/** The size limits of the client as it is sent. Every browser accepts Brotli. */
const MAX_BROTLI_BYTES = 2_700;
const MAX_GZIP_BYTES = 3_000;

Deno.test("CLIENT_BR and CLIENT_GZIP are CLIENT_JS, within the size limits", async () => {
  assertEquals(await decompress(CLIENT_BR, "brotli"), CLIENT_JS);
  assertEquals(await decompress(CLIENT_GZIP, "gzip"), CLIENT_JS);
  assertLessOrEqual(CLIENT_BR.length, MAX_BROTLI_BYTES);
  assertLessOrEqual(CLIENT_GZIP.length, MAX_GZIP_BYTES);
});

async function decompress(
  bytes: Uint8Array<ArrayBuffer>,
  format: CompressionFormat,
) {
  const decompressed = new Blob([bytes]).stream().pipeThrough(
    new DecompressionStream(format),
  );
  return await new Response(decompressed).text();
}
