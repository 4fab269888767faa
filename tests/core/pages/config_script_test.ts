import type { Payload } from "../../../src/core/pages/payload.ts";
import {
  assert,
  assertEquals,
  assertNotEquals,
  assertRejects,
} from "@std/assert";
import { decryptAesGcm } from "@std/crypto/aes-gcm";
import { decodeBase64 } from "@std/encoding/base64";
import type { EpochKeys } from "../../../src/core/keys/epochs.ts";
import { integrityToken } from "../../../src/core/keys/page_crypto.ts";
import {
  ConfigScriptCache,
  escapeForScript,
  makePayload,
  type PayloadInput,
  renderConfigScript,
} from "../../../src/core/pages/config_script.ts";
import { sriHash } from "../../../src/core/values/hash.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { captureLog } from "../../_gateway.ts";

const KEYS: EpochKeys = {
  kid: "1700000000",
  sessionKey: new Uint8Array(32).fill(1),
  integrityKey: new Uint8Array(32).fill(2),
};

function payload(input: Partial<PayloadInput> = {}) {
  return makePayload({
    public: new Map([["B", "2"], ["A", "1"]]),
    sensitive: new Map(),
    keys: KEYS,
    cursor: undefined,
    pollMs: undefined,
    basePath: "",
    now: Date.UTC(2026, 1, 18, 14, 30),
    ...input,
  });
}

async function decrypt(
  { sensitive = "", _meta }: Payload,
  key = KEYS.sessionKey,
  integrity = _meta.integrity,
): Promise<unknown> {
  const aesKey = await crypto.subtle.importKey("raw", key, "AES-GCM", false, [
    "decrypt",
  ]);
  const additionalData = new TextEncoder().encode(integrity);
  const plain = await decryptAesGcm(aesKey, decodeBase64(sensitive), {
    additionalData,
  });
  return JSON.parse(new TextDecoder().decode(plain));
}

Deno.test("makePayload() returns what the schema requires, and nothing optional", async () => {
  const { _meta: { integrity, ...meta }, ...rest } = await payload();
  assertEquals(rest, { public: { A: "1", B: "2" } });
  assertEquals(meta, {
    version: "0.1.0",
    injected_at: "2026-02-18T14:30:00.000Z",
    ttl: 0,
  });
  assert(/^hmac-sha256:[A-Za-z0-9+/]{43}=$/.test(integrity), integrity);
});

Deno.test("makePayload() sets the key's epoch and the stream's cursor", async () => {
  const { sensitive = "", _meta } = await payload({
    sensitive: new Map([["S", "x"]]),
    cursor: 42,
  });
  assert(/^[A-Za-z0-9+/]+=*$/.test(sensitive)); // the schema's pattern
  assertEquals([_meta.key_endpoint, _meta.hot_reload], [
    "/rep/session-key?kid=1700000000",
    "/rep/changes?last_event_id=42&state=PtovBnQfHQgq",
  ]);
});

Deno.test("makePayload() sets the interval of polls beside the stream, whose URL stays as it is", async () => {
  const { _meta } = await payload({ cursor: 42, pollMs: 300_000 });
  assertEquals([_meta.hot_reload, _meta.poll], [
    "/rep/changes?last_event_id=42&state=PtovBnQfHQgq",
    300,
  ]);
  const cold = await payload({ pollMs: 300_000 });
  assertEquals("poll" in cold._meta, false);
});

Deno.test("a script with another interval of polls is another representation of the page", async () => {
  const etags: string[] = [];
  for (const pollMs of [undefined, 10_000, 30_000]) {
    const script = await renderConfigScript(
      await payload({ cursor: 1, pollMs }),
    );
    etags.push(script.etagPart);
  }
  assertEquals(new Set(etags).size, 3);
});

Deno.test("makePayload() encrypts SENSITIVE values with the epoch's key and the page's integrity token only", async () => {
  const payloadWithSecrets = await payload({
    sensitive: new Map([["S", "s€cret"], ["__proto__", "x"]]),
  });
  assertEquals(Object.entries(await decrypt(payloadWithSecrets) as object), [[
    "S",
    "s€cret",
  ], ["__proto__", "x"]]);
  assertEquals(
    decodeBase64(payloadWithSecrets.sensitive ?? "").length,
    12 + 32 + 16,
  );
  await assertRejects(() =>
    decrypt(payloadWithSecrets, new Uint8Array(32).fill(3))
  );
  await assertRejects(() =>
    decrypt(payloadWithSecrets, KEYS.sessionKey, "hmac-sha256:other")
  );
  const bytes = decodeBase64(payloadWithSecrets.sensitive ?? "");
  bytes[20]! ^= 1;
  await assertRejects(() =>
    decrypt({
      ...payloadWithSecrets,
      sensitive: btoa(String.fromCharCode(...bytes)),
    })
  );
});

Deno.test("makePayload() never uses a nonce twice", async () => {
  const blobs = await Promise.all(
    Array.from(
      { length: 50 },
      () => payload({ sensitive: new Map([["S", "x"]]) }),
    ),
  );
  assertEquals(
    new Set(blobs.map(({ sensitive }) => sensitive?.slice(0, 16))).size,
    50,
  );
});

Deno.test("integrityToken() returns the HMAC-SHA-256 of the canonical JSON and a vertical bar", async () => {
  // printf '{"A":"1"}|' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0202…02 -binary | base64
  const values = new Map([["A", "1"]]);
  const token = await integrityToken(values, KEYS.integrityKey);
  assertEquals(
    token,
    "hmac-sha256:ITt+DeVGT8ln4wN7OEUpVnUkJ3tI1Bb32y1C/P2NpuI=",
  );
  assertNotEquals(
    await integrityToken(new Map([["A", "2"]]), KEYS.integrityKey),
    token,
  );
  assertNotEquals(await integrityToken(values, KEYS.sessionKey), token);
});

Deno.test("renderConfigScript() renders a script that no value can end, with the hash of its exact text", async () => {
  const values = new Map([["X", "</script><!--<script>&<\u2028é"]]);
  const { bytes, isSecret } = await renderConfigScript(
    await payload({ public: values }),
  );
  const html = new TextDecoder().decode(bytes);
  const [, integrity, text = ""] =
    /^<script id="__rep__" type="application\/json" data-rep-version="0\.1\.0" data-rep-integrity="([^"]+)">([^<]*)<\/script>$/
      .exec(html) ?? [];
  assertEquals(JSON.parse(text).public, {
    X: "</script><!--<script>&<\u2028é",
  });
  assertEquals(integrity, await sriHash(text));
  assertEquals(isSecret, false);
});

Deno.test("renderConfigScript() changes etagPart with PUBLIC values and hot reload only", async () => {
  const etagPart = async (input: Partial<PayloadInput>) =>
    (await renderConfigScript(await payload(input))).etagPart;
  const first = await etagPart({});
  assertEquals(
    await etagPart({
      now: 0,
      keys: { ...KEYS, kid: "1", integrityKey: KEYS.sessionKey },
    }),
    first,
  );
  assertNotEquals(await etagPart({ public: new Map([["A", "1"]]) }), first);
  const streaming = await etagPart({ cursor: 1 });
  assertNotEquals(streaming, first);
  assertEquals(await etagPart({ cursor: 2 }), streaming);
});

Deno.test("escapeForScript() escapes < and all characters that are not ASCII", () => {
  assertEquals(
    escapeForScript('{"a":"<<\\u003c>&é😀"}'),
    '{"a":"\\u003c\\u003c\\u003c>&\\u00e9\\ud83d\\ude00"}',
  );
});

/** A cache of scripts while the master key can be unavailable. */
function setUpCache(sensitive: [name: string, value: string][]) {
  const clock = new FakeClock();
  const { log, lines } = captureLog();
  const store = { isDown: true, reads: 0 };
  const keys = () => {
    store.reads++;
    return store.isDown
      ? Promise.reject(new Error("down"))
      : Promise.resolve(KEYS);
  };
  const cache = new ConfigScriptCache({
    build: () => Promise.resolve(undefined),
    current: () => ({
      values: {
        public: new Map([["A", "1"]]),
        sensitive: new Map(sensitive),
      },
      cursor: 0,
    }),
    hotReload: false,
    pollMs: undefined,
    basePath: "",
    epochs: { current: () => "1700000000", keys, hasMasterKey: false },
    clock,
    log,
  });
  return { cache, clock, lines, store };
}

Deno.test("ConfigScriptCache logs once an outage that pages lack SENSITIVE values, and keeps their script for a second", async () => {
  const { cache, clock, lines, store } = setUpCache([["S", "2"]]);
  const first = await cache.get();
  await clock.tick(999);
  assert(await cache.get() === first);
  assertEquals([first.isSecret, store.reads], [false, 1]);
  await clock.tick(1);
  assert(await cache.get() !== first);
  assertEquals(store.reads, 2);
  const line = [
    "ERROR",
    "rep.page.without_sensitive",
    "the master key is unavailable: down",
  ];
  const logged = () =>
    lines.map(({ level, msg, detail }) => [level, msg, detail]);
  assertEquals(logged(), [line]);

  store.isDown = false;
  await clock.tick(1_000);
  const complete = await cache.get();
  await clock.tick(3_600_000);
  assert(await cache.get() === complete);
  assertEquals([complete.isSecret, store.reads], [true, 3]);
});

Deno.test("ConfigScriptCache logs the next outage again", async () => {
  const sensitive: [string, string][] = [["S", "1"]];
  const { cache, clock, lines, store } = setUpCache(sensitive);
  await cache.get();
  for (const isDown of [false, true]) {
    store.isDown = isDown;
    sensitive[0] = ["S", String(isDown)];
    await clock.tick(1_000);
    await cache.get();
  }
  assertEquals(lines.length, 2);
});

Deno.test("ConfigScriptCache asks for no key where nothing is SENSITIVE", async () => {
  const { cache, lines, store } = setUpCache([]);
  const first = await cache.get();
  assert(await cache.get() === first);
  assertEquals([store.reads, lines], [0, []]);
});
