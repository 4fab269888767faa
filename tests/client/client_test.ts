import { assert, assertEquals, assertNotStrictEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { CLIENT_JS } from "../../src/client/bundle.ts";
import { type Client, createClient } from "../../src/client/client.ts";
import type { ClientEnvironment } from "../../src/client/environment.ts";
import * as published from "../../src/client/mod.ts";
import { REPError } from "../../src/client/rep_error.ts";
import { bundleClient } from "../../tools/bundle_client.ts";

const META = {
  version: "0.1.0",
  injected_at: "2026-02-18T14:30:00.000Z",
  integrity: "hmac-sha256:c2lnbmF0dXJl",
  key_endpoint: "/rep/session-key?kid=7",
  hot_reload: "/rep/changes?last_event_id=100",
  ttl: 0,
};
const PAYLOAD = { public: { API_URL: "https://api.example.com", EMPTY: "", FLAGS: "a,b" }, _meta: META };
/** The largest the client may be on the wire (REP-RFC-0001 §5.1). */
const MAX_GZIPPED_BYTES = 2_048;

class FakeEventSource {
  readyState = 0;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly #listeners = new Map<string, (event: MessageEvent<string>) => void>();

  constructor(readonly url: string) {}

  addEventListener(type: string, listener: (event: MessageEvent<string>) => void) {
    this.#listeners.set(type, listener);
  }

  close() {
    this.readyState = 2;
  }

  succeed() {
    this.readyState = 1;
    this.onopen?.();
  }

  fail(readyState: number) {
    this.readyState = readyState;
    this.onerror?.();
  }

  send(type: "update" | "delete", data: Record<string, string>, lastEventId: string) {
    const event = new MessageEvent(`rep:config:${type}`, { data: JSON.stringify(data), lastEventId });
    this.#listeners.get(event.type)?.(event);
  }
}

interface FakePage {
  /** The text of the page's element; none for a page without one. */
  text?: string | undefined;
  integrity?: string | null;
  /** Answers the requests for a session key. */
  answer?: () => Promise<Response>;
  crypto?: ClientEnvironment["crypto"];
  random?: () => number;
}

/** A page, its client, and all that the client did to it. */
function open(page: FakePage = {}) {
  const { answer = () => Promise.reject(new TypeError("no network")), crypto: ownCrypto = crypto } = page;
  const { integrity = null, random = () => 0.5 } = page;
  const text = "text" in page ? page.text : JSON.stringify(PAYLOAD);
  const sources: FakeEventSource[] = [];
  const requests: string[] = [];
  const warnings: string[] = [];
  const errors: unknown[] = [];
  const timers: { callback: () => void; ms: number }[] = [];
  const listeners = new Map<string, () => void>();
  const element = {
    baseURI: "https://app.example.com/shop/",
    textContent: text ?? null,
    getAttribute: (name: string) => name === "data-rep-integrity" ? integrity : null,
  };
  const environment: ClientEnvironment = {
    document: { getElementById: (id) => id === "__rep__" && text !== undefined ? element : null },
    EventSource: class extends FakeEventSource {
      constructor(url: string) {
        super(url);
        sources.push(this);
      }
    },
    crypto: ownCrypto,
    console: { warn: (message) => warnings.push(message) },
    Math: { random },
    reportError: (error) => errors.push(error),
    fetch(url) {
      requests.push(url);
      return answer();
    },
    addEventListener: (type, listener) => listeners.set(type, listener),
    setTimeout: (callback, ms) => timers.push({ callback, ms }),
  };
  const client = createClient(environment);
  const dispatch = (type: "online" | "pagehide" | "pageshow") => listeners.get(type)?.();
  return { client, sources, requests, warnings, errors, timers, dispatch };
}

/** Writes down what a client's subscribers are told. */
function recordChanges({ onAnyChange }: Client) {
  const changes: (string | undefined)[][] = [];
  const stop = onAnyChange((...change) => changes.push(change));
  return { changes, stop };
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

/** Encrypts as the gateway does; gives the page's text, and the answer of its session key endpoint. */
async function seal(sensitive: Record<string, string>, additionalText = META.integrity) {
  const rawKey = crypto.getRandomValues(new Uint8Array(32));
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const key = await crypto.subtle.importKey("raw", rawKey, "AES-GCM", false, ["encrypt"]);
  const encoder = new TextEncoder();
  const algorithm = { name: "AES-GCM", iv, additionalData: encoder.encode(additionalText) };
  const sealed = await crypto.subtle.encrypt(algorithm, key, encoder.encode(JSON.stringify(sensitive)));
  const blob = toBase64(new Uint8Array([...iv, ...new Uint8Array(sealed)]));
  const keyAnswer = { key: toBase64(rawKey), expires_at: "2026-02-18T14:30:30.000Z" };
  return {
    text: JSON.stringify({ ...PAYLOAD, sensitive: blob }),
    answer: () => Promise.resolve(Response.json(keyAnswer)),
  };
}

async function integrityOf(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return `sha256-${toBase64(new Uint8Array(digest))}`;
}

/** Lets everything that is under way without a timer come to its end. */
function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}

Deno.test("createClient() asks the network for nothing", async () => {
  const { client, sources, requests } = open(await seal({ TOKEN: "t" }));
  client.get("API_URL");
  client.getAll();
  client.verify();
  client.meta();
  client.status();
  client.onStatus(() => {});
  assertEquals({ sources, requests }, { sources: [], requests: [] });
});

Deno.test("get() gives the value, else the default, else undefined", () => {
  const { get } = open().client;
  assertEquals(get("API_URL"), "https://api.example.com");
  assertEquals(get("API_URL", "http://localhost"), "https://api.example.com");
  assertEquals(get("EMPTY", "default"), "");
  assertEquals(get("MISSING", "default"), "default");
  assertEquals(get("MISSING"), undefined);
});

Deno.test("get() and getAll() find nothing that every object has", () => {
  const { get, getAll } = open().client;
  for (const name of ["toString", "constructor", "hasOwnProperty", "__proto__"]) {
    assertEquals([get(name), getAll()[name]], [undefined, undefined], name);
  }
});

Deno.test("get() takes __proto__ for a name like any other", () => {
  const text = `{"public":{"__proto__":"own","A":"1"},"_meta":${JSON.stringify(META)}}`;
  const { client: { get, getAll, onAnyChange }, sources } = open({ text });
  assertEquals(get("__proto__"), "own");
  onAnyChange(() => {});
  sources[0]?.send("update", { key: "__proto__", tier: "public", value: "changed" }, "101");
  sources[0]?.send("update", { key: "B", tier: "public", value: "2" }, "102");
  assertEquals(Object.entries(getAll()), [["__proto__", "changed"], ["A", "1"], ["B", "2"]]);
});

Deno.test("getAll() gives a frozen object, which a change replaces", () => {
  const { client: { getAll, onAnyChange }, sources } = open();
  const before = getAll();
  assertEquals({ ...before }, { ...PAYLOAD.public } as Record<string, string>);
  assert(Object.isFrozen(before));
  assertStrictEquals(getAll(), before);
  onAnyChange(() => {});
  sources[0]?.send("update", { key: "FLAGS", tier: "public", value: "c" }, "101");
  assertNotStrictEquals(getAll(), before);
  assertEquals({ ...before }, { ...PAYLOAD.public } as Record<string, string>);
  assertEquals({ ...getAll() }, { ...PAYLOAD.public, FLAGS: "c" });
  assert(Object.isFrozen(getAll()));
});

Deno.test("meta() tells of the configuration as it is now", async () => {
  const { client, sources } = open(await seal({ TOKEN: "t" }));
  const meta = {
    version: "0.1.0",
    injectedAt: new Date("2026-02-18T14:30:00.000Z"),
    integrityValid: true,
    publicCount: 3,
    sensitiveAvailable: true,
    hotReloadAvailable: true,
  };
  assertEquals(client.meta(), meta);
  client.onAnyChange(() => {});
  sources[0]?.send("delete", { key: "FLAGS", tier: "public" }, "101");
  assertEquals(client.meta(), { ...meta, publicCount: 2 });
});

Deno.test("meta() says what a page lacks", () => {
  const { hot_reload: _, key_endpoint: __, ...rest } = META;
  const { client } = open({ text: JSON.stringify({ public: {}, _meta: rest }) });
  assertEquals(client.meta(), {
    version: "0.1.0",
    injectedAt: new Date("2026-02-18T14:30:00.000Z"),
    integrityValid: true,
    publicCount: 0,
    sensitiveAvailable: false,
    hotReloadAvailable: false,
  });
});

async function assertUnavailable(client: Client) {
  assertEquals(client.get("API_URL"), undefined);
  assertEquals(client.get("API_URL", "default"), "default");
  assertEquals({ ...client.getAll() }, {});
  assertEquals(client.verify(), false);
  assertEquals(client.meta(), null);
  assertEquals(client.status(), { state: "closed", lastEventId: null });
  await assertRejects(() => client.getSecure("TOKEN"), REPError, 'Cannot find "TOKEN"');
}

Deno.test("createClient() makes an unavailable client for a page without a payload", async () => {
  const { client, errors, requests, sources, warnings } = open({ text: undefined });
  await assertUnavailable(client);
  client.onChange("API_URL", () => {})();
  assertEquals({ errors, requests, sources }, { errors: [], requests: [], sources: [] });
  assertEquals(warnings, ["[REP] Hot reload is not available"]);
});

Deno.test("createClient() reports a malformed payload, and goes on without", async () => {
  const withoutMeta = JSON.stringify({ public: {} });
  const withoutPublic = JSON.stringify({ _meta: META });
  const withoutUrl = JSON.stringify({ public: {}, _meta: { ...META, hot_reload: "https://[" } });
  for (const text of ["", "{", "null", "3", withoutMeta, withoutPublic, withoutUrl]) {
    const { client, errors } = open({ text });
    await assertUnavailable(client);
    assertEquals(errors.map(String), ["REPError: Cannot read the page's configuration"], text);
  }
});

Deno.test("verify() holds for the text that the integrity was made for", async () => {
  const text = JSON.stringify({ ...PAYLOAD, public: { NAME: "Zoë \\u003c" } });
  const { client, errors } = open({ text, integrity: await integrityOf(text) });
  assertEquals(client.verify(), true);
  await settled();
  assertEquals([client.verify(), client.meta()?.integrityValid, errors], [true, true, []]);
});

Deno.test("verify() fails for a text that was changed, and the page is told", async () => {
  const text = JSON.stringify(PAYLOAD);
  for (const integrity of [await integrityOf(`${text} `), "sha256-", "md5-abc"]) {
    const { client, errors } = open({ text, integrity });
    await settled();
    assertEquals([client.verify(), client.meta()?.integrityValid], [false, false]);
    assertEquals(errors.map(String), ["REPError: Cannot trust the page's configuration"]);
  }
});

Deno.test("verify() does not hold plain HTTP against a page", async () => {
  const { client, errors } = open({ integrity: "sha256-", crypto: {} });
  await settled();
  assertEquals([client.verify(), errors], [true, []]);
});

Deno.test("getSecure() decrypts what the gateway encrypted", async () => {
  const { client, requests } = open(await seal({ TOKEN: "s3cret Zoë", EMPTY: "" }));
  assertEquals(await client.getSecure("TOKEN"), "s3cret Zoë");
  assertEquals(await client.getSecure("EMPTY"), "");
  assertEquals(requests, ["/rep/session-key?kid=7"]);
});

Deno.test("getSecure() makes one request for all callers", async () => {
  const { client, requests } = open(await seal({ A: "1", B: "2" }));
  const { getSecure } = client;
  assertEquals(await Promise.all([getSecure("A"), getSecure("B"), getSecure("A")]), ["1", "2", "1"]);
  assertEquals(requests.length, 1);
});

Deno.test("getSecure() rejects a name that is not there", async () => {
  const { client: { getSecure } } = open(await seal({ A: "1" }));
  for (const name of ["MISSING", "toString", "__proto__", "API_URL"]) {
    const error = await assertRejects(() => getSecure(name), REPError);
    assertEquals(error.message, `Cannot find "${name}" among the SENSITIVE variables`);
  }
  assertEquals(await getSecure("A"), "1");
});

Deno.test("getSecure() asks for no key where nothing is encrypted", async () => {
  const { client, requests } = open();
  for (const name of ["A", "toString"]) {
    const error = await assertRejects(() => client.getSecure(name), REPError);
    assertEquals(error.message, `Cannot find "${name}" among the SENSITIVE variables`);
  }
  assertEquals(requests, []);
});

Deno.test("getSecure() says with which status the key was refused", async () => {
  const { text } = await seal({ A: "1" });
  const messages = { 403: "403", 410: "410, reload the page", 429: "429", 503: "503" };
  for (const [status, ending] of Object.entries(messages)) {
    const answer = () => Promise.resolve(new Response(null, { status: Number(status) }));
    const error = await assertRejects(() => open({ text, answer }).client.getSecure("A"), REPError);
    assertEquals(error.message, `Cannot get the session key: ${ending}`);
  }
});

Deno.test("getSecure() tries again after a failure", async () => {
  const { text, answer } = await seal({ A: "1" });
  const answers = [() => Promise.resolve(new Response(null, { status: 429 })), answer];
  const { client: { getSecure }, requests } = open({ text, answer: () => answers.shift()!() });
  const failed = await Promise.allSettled([getSecure("A"), getSecure("A")]);
  assertEquals(failed.map(({ status }) => status), ["rejected", "rejected"]);
  assertEquals(await getSecure("A"), "1");
  assertEquals(requests.length, 2);
});

Deno.test("getSecure() keeps the cause of what went wrong", async () => {
  const { answer } = await seal({ A: "1" });
  const { text: otherKey } = await seal({ A: "1" });
  const otherIntegrity = await seal({ A: "1" }, "hmac-sha256:other");
  const cases = [
    { page: { text: otherKey, answer }, cause: "OperationError" },
    { page: otherIntegrity, cause: "OperationError" },
    { page: { text: otherKey }, cause: "TypeError" },
    { page: { text: otherKey, answer: () => Promise.resolve(new Response("<html>")) }, cause: "SyntaxError" },
  ];
  for (const { page, cause } of cases) {
    const error = await assertRejects(() => open(page).client.getSecure("A"), REPError);
    assertEquals(error.message, "Cannot decrypt the SENSITIVE variables");
    assertEquals((error.cause as Error).name, cause);
  }
});

Deno.test("getSecure() says that it needs a secure context, and spends no key on finding out", async () => {
  const { client, requests } = open({ ...await seal({ A: "1" }), crypto: {} });
  const error = await assertRejects(() => client.getSecure("A"), REPError);
  assertEquals(error.message, "Cannot decrypt without HTTPS or localhost");
  assertEquals(requests, []);
});

Deno.test("onChange() opens the stream where the page stands, once for all subscribers", () => {
  const { client, sources } = open();
  client.onChange("A", () => {});
  client.onChange("B", () => {});
  client.onAnyChange(() => {});
  assertEquals(sources.map(({ url }) => url), ["https://app.example.com/rep/changes?last_event_id=100"]);
});

Deno.test("onChange() tells of its own variable, onAnyChange() of every one", () => {
  const { client, sources } = open();
  const { changes } = recordChanges(client);
  const flags: (string | undefined)[][] = [];
  client.onChange("FLAGS", (...change) => flags.push(change));
  sources[0]?.send("update", { key: "FLAGS", tier: "public", value: "c" }, "101");
  sources[0]?.send("update", { key: "NEW", tier: "public", value: "n" }, "102");
  sources[0]?.send("delete", { key: "FLAGS", tier: "public" }, "103");
  assertEquals(changes, [["FLAGS", "c", "a,b"], ["NEW", "n", undefined], ["FLAGS", undefined, "c"]]);
  assertEquals(flags, [["c", "a,b"], [undefined, "c"]]);
  assertEquals({ ...client.getAll() }, { API_URL: "https://api.example.com", EMPTY: "", NEW: "n" });
  assertEquals(client.get("FLAGS", "default"), "default");
});

Deno.test("onAnyChange() is silent about what is as it was", () => {
  const { client, sources } = open();
  const { changes } = recordChanges(client);
  sources[0]?.send("update", { key: "FLAGS", tier: "public", value: "a,b" }, "101");
  sources[0]?.send("delete", { key: "toString", tier: "public" }, "102");
  assertEquals(changes, []);
});

Deno.test("onAnyChange() takes a delete for one even if it has a value", () => {
  const { client, sources } = open();
  const { changes } = recordChanges(client);
  sources[0]?.send("delete", { key: "FLAGS", tier: "public", value: "" }, "101");
  assertEquals(changes, [["FLAGS", undefined, "a,b"]]);
});

Deno.test("onAnyChange() calls the others when one throws, and reports it", () => {
  const { client, sources, errors } = open();
  client.onAnyChange(() => {
    throw new Error("mine");
  });
  const { changes } = recordChanges(client);
  sources[0]?.send("update", { key: "FLAGS", tier: "public", value: "c" }, "101");
  assertEquals(changes, [["FLAGS", "c", "a,b"]]);
  assertEquals(errors.map(String), ["Error: mine"]);
  assertEquals(client.status().lastEventId, "101");
});

Deno.test("onAnyChange() tells each subscription of one callback, until it ends", () => {
  const { client, sources } = open();
  const values: (string | undefined)[] = [];
  const callback = (_: string, value: string | undefined) => void values.push(value);
  const stopFirst = client.onAnyChange(callback);
  client.onAnyChange(callback);
  sources[0]?.send("update", { key: "A", tier: "public", value: "1" }, "101");
  stopFirst();
  stopFirst();
  sources[0]?.send("update", { key: "A", tier: "public", value: "2" }, "102");
  assertEquals(values, ["1", "1", "2"]);
});

Deno.test("onChange() leaves the stream open until the last subscriber goes, and comes back to where it was", () => {
  const { client, sources } = open();
  const stopFirst = client.onChange("A", () => {});
  const stopSecond = client.onChange("B", () => {});
  sources[0]?.succeed();
  sources[0]?.send("update", { key: "A", tier: "public", value: "1" }, "101");
  stopFirst();
  assertEquals(sources.map(({ readyState }) => readyState), [1]);
  stopSecond();
  assertEquals(sources.map(({ readyState }) => readyState), [2]);
  stopSecond();
  client.onChange("A", () => {});
  assertEquals(sources.map(({ url }) => new URL(url).search), ["?last_event_id=100", "?last_event_id=101"]);
});

Deno.test("onChange() warns where there is no hot reload, and opens nothing", () => {
  const { hot_reload: _, ...rest } = META;
  const { client, sources, warnings } = open({ text: JSON.stringify({ ...PAYLOAD, _meta: rest }) });
  client.onChange("A", () => {})();
  client.onAnyChange(() => {})();
  assertEquals(sources, []);
  assertEquals(warnings, ["[REP] Hot reload is not available", "[REP] Hot reload is not available"]);
});

Deno.test("onChange() follows a gateway whose pages name no cursor", () => {
  const text = JSON.stringify({ ...PAYLOAD, _meta: { ...META, hot_reload: "/rep/changes?site=a" } });
  const { client, sources, dispatch } = open({ text });
  client.onChange("A", () => {});
  assertEquals(client.status().lastEventId, null);
  sources[0]?.send("update", { key: "A", tier: "public", value: "1" }, "");
  dispatch("online");
  sources[1]?.send("update", { key: "A", tier: "public", value: "2" }, "101");
  dispatch("online");
  const searches = sources.map(({ url }) => new URL(url).search);
  assertEquals(searches, ["?site=a", "?site=a", "?site=a&last_event_id=101"]);
});

Deno.test("the stream is left to itself while the browser reconnects", () => {
  const { client, sources, timers } = open();
  client.onChange("A", () => {});
  sources[0]?.fail(0);
  assertEquals([sources.length, timers, client.status().state], [1, [], "connecting"]);
});

/** The pauses before the first tries of a stream that never opens. */
function pausesMs(random: () => number): number[] {
  const { client, sources, timers } = open({ random });
  client.onChange("A", () => {});
  for (let tries = 0; tries < 7; tries++) {
    sources.at(-1)?.fail(2);
    timers.at(-1)?.callback();
  }
  assertEquals(sources.length, 8);
  return timers.map(({ ms }) => ms);
}

Deno.test("the stream is opened again after a growing, jittered pause when the browser has given up", () => {
  assertEquals(pausesMs(() => 0), [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
  assertEquals(pausesMs(() => 1), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
});

Deno.test("the stream's pause is short again once it was open", () => {
  const { client, sources, timers } = open();
  client.onChange("A", () => {});
  sources[0]?.fail(2);
  timers[0]?.callback();
  sources[1]?.succeed();
  sources[1]?.fail(2);
  assertEquals(timers.map(({ ms }) => ms), [750, 750]);
});

Deno.test("the stream goes on at the last id when it is opened again", () => {
  const { client, sources, timers } = open();
  client.onChange("A", () => {});
  sources[0]?.send("delete", { key: "FLAGS", tier: "public" }, "105");
  sources[0]?.fail(2);
  timers[0]?.callback();
  assertEquals(sources[1]?.url, "https://app.example.com/rep/changes?last_event_id=105");
});

Deno.test("the stream is not opened again by a pause that nobody waits for", () => {
  const { client, sources, timers, dispatch } = open();
  const stop = client.onChange("A", () => {});
  sources[0]?.fail(2);
  dispatch("online");
  timers[0]?.callback();
  assertEquals(sources.length, 2);
  sources[1]?.fail(2);
  stop();
  timers[1]?.callback();
  assertEquals(sources.length, 2);
});

Deno.test("the stream is opened anew at once when the network is back", () => {
  const { client, sources, dispatch } = open();
  client.onChange("A", () => {});
  sources[0]?.succeed();
  dispatch("online");
  assertEquals(sources.map(({ readyState }) => readyState), [2, 0]);
});

Deno.test("the stream is closed for the back/forward cache, and goes on after it", () => {
  const { client, sources, dispatch } = open();
  client.onChange("A", () => {});
  dispatch("pageshow"); // a page that is loaded has one too
  sources[0]?.succeed();
  sources[0]?.send("update", { key: "A", tier: "public", value: "1" }, "101");
  dispatch("pagehide");
  assertEquals([sources[0]?.readyState, client.status().state], [2, "closed"]);
  dispatch("pageshow");
  assertEquals(sources.map(({ url }) => new URL(url).search), ["?last_event_id=100", "?last_event_id=101"]);
});

Deno.test("the stream is opened by no event of the page while nobody is subscribed", () => {
  const { client, sources, dispatch } = open();
  dispatch("pageshow");
  dispatch("online");
  client.onChange("A", () => {})();
  dispatch("pageshow");
  dispatch("online");
  assertEquals(sources.length, 1);
});

Deno.test("onStatus() tells how the stream is doing, until it is ended", () => {
  const { client, sources, timers } = open();
  const statuses: string[] = [];
  const stop = client.onStatus(({ state, lastEventId }) => statuses.push(`${state} ${lastEventId}`));
  const stopFollowing = client.onChange("A", () => {});
  sources[0]?.succeed();
  sources[0]?.send("update", { key: "A", tier: "public", value: "1" }, "101");
  sources[0]?.fail(2);
  timers[0]?.callback();
  sources[1]?.succeed();
  stopFollowing();
  stop();
  client.onChange("A", () => {});
  const expected = ["connecting 100", "open 100", "open 101", "connecting 101", "connecting 101", "open 101"];
  assertEquals(statuses, [...expected, "closed 101"]);
});

Deno.test("mod.ts has the interface of REP's SDK, its values as one object too", () => {
  const { REPError: error, default: byDefault, rep, ...functions } = published;
  assertStrictEquals(byDefault, rep);
  assertStrictEquals(error, REPError);
  const names = ["get", "getAll", "getSecure", "meta", "onAnyChange", "onChange", "onStatus", "status", "verify"];
  assertEquals(Object.keys(functions).sort(), names);
  assertEquals({ ...functions }, { ...rep });
});

Deno.test("mod.ts is unavailable outside a page", async () => {
  await assertUnavailable(published.rep);
});

Deno.test("CLIENT_JS is what bundle_client.ts makes of mod.ts", async () => {
  const hint = "src/client was changed: run `deno run -A tools/bundle_client.ts`";
  assertEquals(CLIENT_JS, await bundleClient(), hint);
});

Deno.test("CLIENT_JS is a module that exports what mod.ts exports, and imports nothing", async () => {
  const module = await import(`data:text/javascript,${encodeURIComponent(CLIENT_JS)}`);
  assertEquals(Object.keys(module).sort(), Object.keys(published).sort());
});

Deno.test("CLIENT_JS has less than 2 KB when it is compressed", async () => {
  const stream = new Blob([CLIENT_JS]).stream().pipeThrough(new CompressionStream("gzip"));
  const { length } = await new Response(stream).bytes();
  assert(length < MAX_GZIPPED_BYTES, `it has ${length} bytes`);
});
