import {
  assert,
  assertEquals,
  assertNotStrictEquals,
  assertRejects,
  assertStrictEquals,
} from "@std/assert";
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
const PAYLOAD = {
  public: { API_URL: "https://api.example.com", EMPTY: "", FLAGS: "a,b" },
  _meta: META,
};
/** The size limits of the client as it is sent: that of REP-RFC-0001 §5.1 for Brotli, which every browser accepts. */
const MAX_BROTLI_BYTES = 2_048;
const MAX_GZIP_BYTES = 2_250;

class FakeEventSource {
  readyState = 0;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly #listeners = new Map<
    string,
    (event: MessageEvent<string>) => void
  >();

  constructor(readonly url: string) {}

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

  fail(readyState: number) {
    this.readyState = readyState;
    this.onerror?.();
  }

  send(
    type: "update" | "delete",
    data: Record<string, string>,
    lastEventId: string,
  ) {
    const event = new MessageEvent(`rep:config:${type}`, {
      data: JSON.stringify(data),
      lastEventId,
    });
    this.#listeners.get(event.type)?.(event);
  }
}

interface FakePage {
  /** The text of the element with the payload; `undefined` for a page without it. */
  text?: string | undefined;
  integrity?: string | null;
  /** Responds to requests for a session key. */
  respond?: () => Promise<Response>;
  crypto?: Browser["crypto"];
  random?: () => number;
  /** Whether the page starts hidden. */
  hidden?: boolean;
}

/** Web Crypto, and a function that waits until all hashes are computed and the client has seen them. */
function recordDigests({ subtle }: Browser["crypto"]) {
  const digests: Promise<ArrayBuffer>[] = [];
  const digest: SubtleCrypto["digest"] = (algorithm, data) => {
    const hash = crypto.subtle.digest(algorithm, data);
    digests.push(hash);
    return hash;
  };
  const importKey = crypto.subtle.importKey.bind(
    crypto.subtle,
  ) as SubtleCrypto["importKey"];
  const decrypt: SubtleCrypto["decrypt"] = (...args) =>
    crypto.subtle.decrypt(...args);
  const hashed = async () => {
    await Promise.all(digests);
    await new Promise((resolve) => setTimeout(resolve)); // after the promise reactions of the client
  };
  return {
    crypto: subtle ? { subtle: { decrypt, digest, importKey } } : {},
    hashed,
  };
}

/** Creates a page and its client, and records the effects of the client. */
function open(page: FakePage = {}) {
  const {
    respond = () => Promise.reject(new TypeError("no network")),
    crypto: ownCrypto = crypto,
  } = page;
  const { integrity = null, random = () => 0.5, hidden = false } = page;
  const text = "text" in page ? page.text : JSON.stringify(PAYLOAD);
  const sources: FakeEventSource[] = [];
  const requests: string[] = [];
  const warnings: string[] = [];
  const errors: unknown[] = [];
  const timers: { callback: () => void; ms: number }[] = [];
  const listeners = new Map<string, () => void>();
  const element = {
    textContent: text ?? null,
    getAttribute: (name: string) =>
      name === "data-rep-integrity" ? integrity : null,
  };
  const { crypto: recorded, hashed } = recordDigests(ownCrypto);
  const document = {
    hidden,
    getElementById: (id: string) =>
      id === "__rep__" && text !== undefined ? element : null,
  };
  const environment: Browser = {
    document,
    EventSource: class extends FakeEventSource {
      constructor(url: string) {
        super(resolve(url));
        sources.push(this);
      }
    },
    crypto: recorded,
    console: { warn: (message) => warnings.push(message) },
    Math: { random },
    reportError: (error) => errors.push(error),
    location: { origin: "https://app.example.com" },
    fetch(url) {
      requests.push(resolve(url));
      return respond();
    },
    addEventListener: (type, listener) => listeners.set(type, listener),
    setTimeout: (callback, ms) => timers.push({ callback, ms }),
  };
  const client = createClient(environment);
  const dispatch = (type: PageEvent) => listeners.get(type)?.();
  const setHidden = (hidden: boolean) => {
    document.hidden = hidden;
    dispatch("visibilitychange");
  };
  return {
    client,
    sources,
    requests,
    warnings,
    errors,
    timers,
    dispatch,
    setHidden,
    hashed,
  };
}

/** Resolves a URL as browsers do, in a page with a `<base>` element that names another origin. */
function resolve(url: string): string {
  return new URL(url, "https://evil.example/base/").href;
}

/** Subscribes to all changes and records them. */
function recordChanges({ onAnyChange }: Client) {
  const changes: (string | undefined)[][] = [];
  const stop = onAnyChange((...change) => changes.push(change));
  return { changes, stop };
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
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
  const encoder = new TextEncoder();
  const algorithm = {
    name: "AES-GCM",
    iv,
    additionalData: encoder.encode(additionalText),
  };
  const ciphertext = await crypto.subtle.encrypt(
    algorithm,
    key,
    encoder.encode(JSON.stringify(sensitive)),
  );
  const blob = toBase64(new Uint8Array([...iv, ...new Uint8Array(ciphertext)]));
  const sessionKey = {
    key: toBase64(rawKey),
    expires_at: "2026-02-18T14:30:30.000Z",
  };
  return {
    text: JSON.stringify({ ...PAYLOAD, sensitive: blob }),
    respond: () => Promise.resolve(Response.json(sessionKey)),
  };
}

async function computeIntegrity(text: string): Promise<string> {
  const digest = await crypto.subtle.digest(
    "SHA-256",
    new TextEncoder().encode(text),
  );
  return `sha256-${toBase64(new Uint8Array(digest))}`;
}

Deno.test("createClient() makes no network requests", async () => {
  const { client, sources, requests } = open(await encrypt({ TOKEN: "t" }));
  client.get("API_URL");
  client.getAll();
  client.verify();
  client.meta();
  client.status();
  client.onStatus(() => {});
  assertEquals({ sources, requests }, { sources: [], requests: [] });
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
  for (
    const name of ["toString", "constructor", "hasOwnProperty", "__proto__"]
  ) {
    assertEquals([get(name), getAll()[name]], [undefined, undefined], name);
  }
});

Deno.test("get() accepts __proto__ as a name", () => {
  const text = `{"public":{"__proto__":"own","A":"1"},"_meta":${
    JSON.stringify(META)
  }}`;
  const { client: { get, getAll, onAnyChange }, sources } = open({ text });
  assertEquals(get("__proto__"), "own");
  onAnyChange(() => {});
  sources[0]?.send("update", {
    key: "__proto__",
    tier: "public",
    value: "changed",
  }, "101");
  sources[0]?.send("update", { key: "B", tier: "public", value: "2" }, "102");
  assertEquals(Object.entries(getAll()), [
    ["__proto__", "changed"],
    ["A", "1"],
    ["B", "2"],
  ]);
});

Deno.test("getAll() returns a frozen object, which a change replaces", () => {
  const { client: { getAll, onAnyChange }, sources } = open();
  const before = getAll();
  assertEquals({ ...before }, { ...PAYLOAD.public } as Record<string, string>);
  assert(Object.isFrozen(before));
  assertStrictEquals(getAll(), before);
  onAnyChange(() => {});
  sources[0]?.send(
    "update",
    { key: "FLAGS", tier: "public", value: "c" },
    "101",
  );
  assertNotStrictEquals(getAll(), before);
  assertEquals({ ...before }, { ...PAYLOAD.public } as Record<string, string>);
  assertEquals({ ...getAll() }, { ...PAYLOAD.public, FLAGS: "c" });
  assert(Object.isFrozen(getAll()));
});

Deno.test("meta() describes the current configuration", async () => {
  const { client, sources } = open(await encrypt({ TOKEN: "t" }));
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

Deno.test("meta() reports missing features of a page", () => {
  const { hot_reload: _, key_endpoint: __, ...rest } = META;
  const { client } = open({
    text: JSON.stringify({ public: {}, _meta: rest }),
  });
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
  await assertRejects(
    () => client.getSecure("TOKEN"),
    REPError,
    'Cannot find "TOKEN"',
  );
}

Deno.test("createClient() returns an unavailable client for a page without a payload", async () => {
  const { client, errors, requests, sources, warnings } = open({
    text: undefined,
  });
  await assertUnavailable(client);
  client.onChange("API_URL", () => {})();
  assertEquals({ errors, requests, sources }, {
    errors: [],
    requests: [],
    sources: [],
  });
  assertEquals(warnings, ["[REP] Hot reload is not available"]);
});

Deno.test("createClient() reports a malformed payload and ignores it", async () => {
  const withoutMeta = JSON.stringify({ public: {} });
  const withoutPublic = JSON.stringify({ _meta: META });
  const withoutUrl = JSON.stringify({
    public: {},
    _meta: { ...META, hot_reload: "https://[" },
  });
  for (
    const text of ["", "{", "null", "3", withoutMeta, withoutPublic, withoutUrl]
  ) {
    const { client, errors } = open({ text });
    await assertUnavailable(client);
    assertEquals(errors.map(String), [
      "REPError: Cannot read the page's configuration",
    ], text);
  }
});

Deno.test("verify() returns true if the hash of the text is correct", async () => {
  const text = JSON.stringify({ ...PAYLOAD, public: { NAME: "Zoë \\u003c" } });
  const { client, errors, hashed } = open({
    text,
    integrity: await computeIntegrity(text),
  });
  assertEquals(client.verify(), true);
  await hashed();
  assertEquals([client.verify(), client.meta()?.integrityValid, errors], [
    true,
    true,
    [],
  ]);
});

Deno.test("verify() returns false if the hash of the text is incorrect, which is reported", async () => {
  const text = JSON.stringify(PAYLOAD);
  for (
    const integrity of [
      await computeIntegrity(`${text} `),
      "sha256-",
      "md5-abc",
    ]
  ) {
    const { client, errors, hashed } = open({ text, integrity });
    await hashed();
    assertEquals([client.verify(), client.meta()?.integrityValid], [
      false,
      false,
    ]);
    assertEquals(errors.map(String), [
      "REPError: Cannot use the page's configuration: its integrity check failed",
    ]);
  }
});

Deno.test("verify() returns true over plain HTTP", async () => {
  const { client, errors, hashed } = open({ integrity: "sha256-", crypto: {} });
  await hashed();
  assertEquals([client.verify(), errors], [true, []]);
});

Deno.test("getSecure() decrypts the values of the gateway", async () => {
  const { client, requests } = open(
    await encrypt({ TOKEN: "s3cret Zoë", EMPTY: "" }),
  );
  assertEquals(await client.getSecure("TOKEN"), "s3cret Zoë");
  assertEquals(await client.getSecure("EMPTY"), "");
  assertEquals(requests, ["https://app.example.com/rep/session-key?kid=7"]);
});

Deno.test("getSecure() makes one request for all callers", async () => {
  const { client, requests } = open(await encrypt({ A: "1", B: "2" }));
  const { getSecure } = client;
  assertEquals(
    await Promise.all([getSecure("A"), getSecure("B"), getSecure("A")]),
    ["1", "2", "1"],
  );
  assertEquals(requests.length, 1);
});

Deno.test("getSecure() rejects for a name that is not set", async () => {
  const { client: { getSecure } } = open(await encrypt({ A: "1" }));
  for (const name of ["MISSING", "toString", "__proto__", "API_URL"]) {
    const error = await assertRejects(() => getSecure(name), REPError);
    assertEquals(
      error.message,
      `Cannot find "${name}" among the SENSITIVE variables`,
    );
  }
  assertEquals(await getSecure("A"), "1");
});

Deno.test("getSecure() requests no key if nothing is encrypted", async () => {
  const { client, requests } = open();
  for (const name of ["A", "toString"]) {
    const error = await assertRejects(() => client.getSecure(name), REPError);
    assertEquals(
      error.message,
      `Cannot find "${name}" among the SENSITIVE variables`,
    );
  }
  assertEquals(requests, []);
});

Deno.test("getSecure() rejects with the status of the rejected key", async () => {
  const { text } = await encrypt({ A: "1" });
  const messages = { 403: "403", 410: "410, reload the page", 503: "503" };
  for (const [status, ending] of Object.entries(messages)) {
    const respond = () =>
      Promise.resolve(new Response(null, { status: Number(status) }));
    const error = await assertRejects(
      () => open({ text, respond }).client.getSecure("A"),
      REPError,
    );
    assertEquals(error.message, `Cannot get the session key: ${ending}`);
  }
});

/** Responds with 429 and then with a key, and runs the client's timer as soon as it is set. */
async function waitForKey(retryAfter: Record<string, string>) {
  const { text, respond } = await encrypt({ A: "1" });
  const answers = [
    () =>
      Promise.resolve(new Response(null, { status: 429, headers: retryAfter })),
    respond,
  ];
  const page = open({
    text,
    respond: () =>
      answers.shift()?.() ?? Promise.reject(new Error("a third request")),
  });
  const value = page.client.getSecure("A");
  while (page.timers.length === 0) {
    await new Promise((resolve) => setTimeout(resolve));
  }
  page.timers[0]?.callback();
  return {
    value: await value,
    pauseMs: page.timers.map(({ ms }) => ms),
    warnings: page.warnings,
  };
}

Deno.test("getSecure() waits once as long as a 429 says, at most a minute, and says so", async () => {
  for (
    const [retryAfter, seconds] of [["17", 17], ["3600", 60], [
      "Sun, 06 Nov 1994 08:49:37 GMT",
      0,
    ]] as const
  ) {
    const { value, pauseMs, warnings } = await waitForKey({
      "retry-after": retryAfter,
    });
    const expected = `[REP] Waiting ${
      Math.ceil(seconds + 2.5)
    } s for a session key`;
    assertEquals([value, pauseMs, warnings], ["1", [(seconds + 2.5) * 1_000], [
      expected,
    ]]); // the random part: 0.5 × 5 s
  }
});

Deno.test("getSecure() rejects if the second request is too early as well", async () => {
  const { text } = await encrypt({ A: "1" });
  const { client, timers, requests } = open({
    text,
    respond: () => Promise.resolve(new Response(null, { status: 429 })),
  });
  const rejection = assertRejects(
    () => client.getSecure("A"),
    REPError,
    "Cannot get the session key: 429",
  );
  while (timers.length === 0) {
    await new Promise((resolve) => setTimeout(resolve));
  }
  timers[0]?.callback();
  await rejection;
  assertEquals(requests.length, 2);
});

Deno.test("getSecure() tries again after a failure", async () => {
  const { text, respond } = await encrypt({ A: "1" });
  const responders = [
    () => Promise.resolve(new Response(null, { status: 503 })),
    respond,
  ];
  const { client: { getSecure }, requests } = open({
    text,
    respond: () => responders.shift()!(),
  });
  const failed = await Promise.allSettled([getSecure("A"), getSecure("A")]);
  assertEquals(failed.map(({ status }) => status), ["rejected", "rejected"]);
  assertEquals(await getSecure("A"), "1");
  assertEquals(requests.length, 2);
});

Deno.test("getSecure() rejects with the cause of a failure", async () => {
  const { respond } = await encrypt({ A: "1" });
  const { text: otherKey } = await encrypt({ A: "1" });
  const otherIntegrity = await encrypt({ A: "1" }, "hmac-sha256:other");
  const cases = [
    { page: { text: otherKey, respond }, cause: "OperationError" },
    { page: otherIntegrity, cause: "OperationError" },
    { page: { text: otherKey }, cause: "TypeError" },
    {
      page: {
        text: otherKey,
        respond: () => Promise.resolve(new Response("<html>")),
      },
      cause: "SyntaxError",
    },
  ];
  for (const { page, cause } of cases) {
    const error = await assertRejects(
      () => open(page).client.getSecure("A"),
      REPError,
    );
    assertEquals(error.message, "Cannot decrypt the SENSITIVE variables");
    assertEquals((error.cause as Error).name, cause);
  }
});

Deno.test("getSecure() rejects outside a secure context without requesting a key", async () => {
  const { client, requests } = open({
    ...await encrypt({ A: "1" }),
    crypto: {},
  });
  const error = await assertRejects(() => client.getSecure("A"), REPError);
  assertEquals(error.message, "Cannot decrypt without HTTPS or localhost");
  assertEquals(requests, []);
});

Deno.test("onChange() opens one stream for all subscribers, at the cursor of the page", () => {
  const { client, sources } = open();
  client.onChange("A", () => {});
  client.onChange("B", () => {});
  client.onAnyChange(() => {});
  assertEquals(sources.map(({ url }) => url), [
    "https://app.example.com/rep/changes?last_event_id=100",
  ]);
});

Deno.test("onChange() is called for its variable, onAnyChange() for all of them", () => {
  const { client, sources } = open();
  const { changes } = recordChanges(client);
  const flags: (string | undefined)[][] = [];
  client.onChange("FLAGS", (...change) => flags.push(change));
  sources[0]?.send(
    "update",
    { key: "FLAGS", tier: "public", value: "c" },
    "101",
  );
  sources[0]?.send("update", { key: "NEW", tier: "public", value: "n" }, "102");
  sources[0]?.send("delete", { key: "FLAGS", tier: "public" }, "103");
  assertEquals(changes, [["FLAGS", "c", "a,b"], ["NEW", "n", undefined], [
    "FLAGS",
    undefined,
    "c",
  ]]);
  assertEquals(flags, [["c", "a,b"], [undefined, "c"]]);
  assertEquals({ ...client.getAll() }, {
    API_URL: "https://api.example.com",
    EMPTY: "",
    NEW: "n",
  });
  assertEquals(client.get("FLAGS", "default"), "default");
});

Deno.test("onAnyChange() is not called for values that do not change", () => {
  const { client, sources } = open();
  const { changes } = recordChanges(client);
  sources[0]?.send(
    "update",
    { key: "FLAGS", tier: "public", value: "a,b" },
    "101",
  );
  sources[0]?.send("delete", { key: "toString", tier: "public" }, "102");
  assertEquals(changes, []);
});

Deno.test("onAnyChange() ignores the value of a delete event", () => {
  const { client, sources } = open();
  const { changes } = recordChanges(client);
  sources[0]?.send(
    "delete",
    { key: "FLAGS", tier: "public", value: "" },
    "101",
  );
  assertEquals(changes, [["FLAGS", undefined, "a,b"]]);
});

Deno.test("onAnyChange() reports an error of a callback and calls the others", () => {
  const { client, sources, errors } = open();
  client.onAnyChange(() => {
    throw new Error("mine");
  });
  const { changes } = recordChanges(client);
  sources[0]?.send(
    "update",
    { key: "FLAGS", tier: "public", value: "c" },
    "101",
  );
  assertEquals(changes, [["FLAGS", "c", "a,b"]]);
  assertEquals(errors.map(String), ["Error: mine"]);
  assertEquals(client.status().lastEventId, "101");
});

Deno.test("onAnyChange() calls a callback once per subscription", () => {
  const { client, sources } = open();
  const values: (string | undefined)[] = [];
  const callback = (_: string, value: string | undefined) =>
    void values.push(value);
  const stopFirst = client.onAnyChange(callback);
  client.onAnyChange(callback);
  sources[0]?.send("update", { key: "A", tier: "public", value: "1" }, "101");
  stopFirst();
  stopFirst();
  sources[0]?.send("update", { key: "A", tier: "public", value: "2" }, "102");
  assertEquals(values, ["1", "1", "2"]);
});

Deno.test("onChange() closes the stream with the last subscription, and reopens it at its cursor", () => {
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
  assertEquals(sources.map(({ url }) => new URL(url).search), [
    "?last_event_id=100",
    "?last_event_id=101",
  ]);
});

Deno.test("onChange() warns without hot reload, and opens no stream", () => {
  const { hot_reload: _, ...rest } = META;
  const { client, sources, warnings } = open({
    text: JSON.stringify({ ...PAYLOAD, _meta: rest }),
  });
  client.onChange("A", () => {})();
  client.onAnyChange(() => {})();
  assertEquals(sources, []);
  assertEquals(warnings, [
    "[REP] Hot reload is not available",
    "[REP] Hot reload is not available",
  ]);
});

Deno.test("onChange() works with a gateway whose pages contain no cursor", () => {
  const text = JSON.stringify({
    ...PAYLOAD,
    _meta: { ...META, hot_reload: "/rep/changes?site=a" },
  });
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

Deno.test("the stream is not reopened while the browser reconnects", () => {
  const { client, sources, timers } = open();
  client.onChange("A", () => {});
  sources[0]?.fail(0);
  assertEquals([sources.length, timers, client.status().state], [
    1,
    [],
    "connecting",
  ]);
});

/** Returns the pauses of a stream that never opens. */
function pausesMs(random: () => number): number[] {
  const { client, sources, timers } = open({ random });
  client.onChange("A", () => {});
  for (let attempt = 0; attempt < 7; attempt++) {
    sources.at(-1)?.fail(2);
    timers.at(-1)?.callback();
  }
  assertEquals(sources.length, 8);
  return timers.map(({ ms }) => ms);
}

Deno.test("the stream is reopened with exponential backoff and jitter when the browser does not reconnect", () => {
  assertEquals(pausesMs(() => 0), [
    500,
    1_000,
    2_000,
    4_000,
    8_000,
    15_000,
    15_000,
  ]);
  assertEquals(pausesMs(() => 1), [
    1_000,
    2_000,
    4_000,
    8_000,
    16_000,
    30_000,
    30_000,
  ]);
});

Deno.test("the backoff is reset once the stream is open", () => {
  const { client, sources, timers } = open();
  client.onChange("A", () => {});
  sources[0]?.fail(2);
  timers[0]?.callback();
  sources[1]?.succeed();
  sources[1]?.fail(2);
  assertEquals(timers.map(({ ms }) => ms), [750, 750]);
});

Deno.test("the stream resumes at the last id when it is reopened", () => {
  const { client, sources, timers } = open();
  client.onChange("A", () => {});
  sources[0]?.send("delete", { key: "FLAGS", tier: "public" }, "105");
  sources[0]?.fail(2);
  timers[0]?.callback();
  assertEquals(
    sources[1]?.url,
    "https://app.example.com/rep/changes?last_event_id=105",
  );
});

Deno.test("the stream is not reopened by an outdated timer", () => {
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

Deno.test("the stream is reopened at once when the network is back", () => {
  const { client, sources, dispatch } = open();
  client.onChange("A", () => {});
  sources[0]?.succeed();
  dispatch("online");
  assertEquals(sources.map(({ readyState }) => readyState), [2, 0]);
});

Deno.test("the stream is closed for the back/forward cache and resumed after it", () => {
  const { client, sources, dispatch } = open();
  client.onChange("A", () => {});
  dispatch("pageshow"); // fired for a new page, too
  sources[0]?.succeed();
  sources[0]?.send("update", { key: "A", tier: "public", value: "1" }, "101");
  dispatch("pagehide");
  assertEquals([sources[0]?.readyState, client.status().state], [2, "closed"]);
  dispatch("pageshow");
  assertEquals(sources.map(({ url }) => new URL(url).search), [
    "?last_event_id=100",
    "?last_event_id=101",
  ]);
});

Deno.test("the stream is closed 1.5 s after the page is hidden, and resumed when it is shown", () => {
  const { client, sources, timers, setHidden } = open();
  client.onChange("A", () => {});
  sources[0]?.succeed();
  sources[0]?.send("update", { key: "A", tier: "public", value: "1" }, "101");
  setHidden(true);
  assertEquals([sources[0]?.readyState, timers.map(({ ms }) => ms)], [1, [
    1_500,
  ]]);
  timers[0]?.callback();
  assertEquals([sources[0]?.readyState, client.status()], [2, {
    state: "closed",
    lastEventId: "101",
  }]);
  setHidden(false);
  timers[1]?.callback();
  assertEquals(sources.map(({ url }) => new URL(url).search), [
    "?last_event_id=100",
    "?last_event_id=101",
  ]);
});

Deno.test("the stream stays open if the page is shown again at once", () => {
  const { client, sources, timers, setHidden } = open();
  client.onChange("A", () => {});
  setHidden(true);
  setHidden(false);
  timers.forEach(({ callback }) => callback());
  assertEquals(sources.map(({ readyState }) => readyState), [0]);
});

Deno.test("a page that starts hidden opens its stream when it is shown", () => {
  const { client, sources, timers, dispatch, setHidden } = open({
    hidden: true,
  });
  client.onChange("A", () => {});
  dispatch("pageshow");
  dispatch("online");
  assertEquals(sources, []);
  setHidden(false);
  timers.forEach(({ callback }) => callback());
  assertEquals(sources.length, 1);
});

Deno.test("listenInBackground() keeps the stream of a hidden page open", () => {
  const { client, sources, timers, setHidden } = open({ hidden: true });
  client.onChange("A", () => {});
  client.listenInBackground();
  setHidden(true);
  timers.forEach(({ callback }) => callback());
  assertEquals(sources.map(({ readyState }) => readyState), [0]);
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
  const stop = client.onStatus(({ state, lastEventId }) =>
    statuses.push(`${state} ${lastEventId}`)
  );
  const unsubscribe = client.onChange("A", () => {});
  sources[0]?.succeed();
  sources[0]?.send("update", { key: "A", tier: "public", value: "1" }, "101");
  sources[0]?.fail(2);
  timers[0]?.callback();
  sources[1]?.succeed();
  unsubscribe();
  stop();
  client.onChange("A", () => {});
  const expected = [
    "connecting 100",
    "open 100",
    "open 101",
    "connecting 101",
    "connecting 101",
    "open 101",
  ];
  assertEquals(statuses, [...expected, "closed 101"]);
});

Deno.test("mod.ts exports the interface of REP's SDK, individually and as one object", () => {
  const { REPError: error, default: byDefault, rep, ...functions } = published;
  assertStrictEquals(byDefault, rep);
  assertStrictEquals(error, REPError);
  const names = [
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
  ];
  assertEquals(Object.keys(functions).sort(), names);
  assertEquals({ ...functions }, { ...rep });
});

Deno.test("mod.ts exports an unavailable client outside a page", async () => {
  await assertUnavailable(published.rep);
});

Deno.test("CLIENT_JS is the current output of bundle_client.ts", async () => {
  const hint =
    "src/client was changed: run `deno run -A tools/bundle_client.ts`";
  assertEquals(CLIENT_JS, await bundleClient(), hint);
});

Deno.test("CLIENT_JS is a module with the exports of mod.ts and without imports", async () => {
  const module = await import(
    `data:text/javascript,${encodeURIComponent(CLIENT_JS)}`
  );
  assertEquals(Object.keys(module).sort(), Object.keys(published).sort());
});

Deno.test("CLIENT_BR and CLIENT_GZIP are CLIENT_JS, within the size limits", async () => {
  assert(
    CLIENT_BR.length <= MAX_BROTLI_BYTES,
    `Brotli has ${CLIENT_BR.length} bytes`,
  );
  assert(
    CLIENT_GZIP.length <= MAX_GZIP_BYTES,
    `gzip has ${CLIENT_GZIP.length} bytes`,
  );
  for (
    const [bytes, format] of [[CLIENT_BR, "brotli"], [
      CLIENT_GZIP,
      "gzip",
    ]] as const
  ) {
    const stream = new Blob([bytes]).stream().pipeThrough(
      new DecompressionStream(format),
    );
    assertEquals(await new Response(stream).text(), CLIENT_JS);
  }
});
