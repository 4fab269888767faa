/** OpenFeature's own SDKs and providers, unmodified, against a gateway. */
import { OFREPProvider } from "@openfeature/ofrep-provider";
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";
import { OpenFeature as OpenFeatureServer } from "@openfeature/server-sdk";
import {
  ClientProviderEvents,
  OpenFeature,
  type Provider,
} from "@openfeature/web-sdk";
import { assertEquals } from "@std/assert";
import { memoryStore } from "../src/engines/memory.ts";
import type { GatewayOptions } from "../src/options.ts";
import { bundle } from "../tools/bundle_client.ts";
import { testBrowser } from "./_browser.ts";
import { setUp } from "./_gateway.ts";
import { remoteStore } from "./_store.ts";
import { TempDirectory } from "./_temp.ts";
import { within } from "./_time.ts";
import { serveLocally } from "./_serve.ts";

const MANIFEST = `version: 0.1.0
variables:
  TITLE: { tier: public, type: string }
  COUNT: { tier: public, type: number }
  IS_ON: { tier: public, type: boolean }
  LIMITS: { tier: public, type: json }
`;

const VARIABLES = {
  REP_PUBLIC_TITLE: "Hello",
  REP_PUBLIC_COUNT: "7",
  REP_PUBLIC_IS_ON: "true",
  REP_PUBLIC_LIMITS: '{"max":10}',
};

/** Their values by an SDK. */
const VALUES = ["Hello", 7, true, { max: 10 }];

/** Serves a gateway on a port. */
async function serve(options: GatewayOptions = {}) {
  const gate = await setUp(VARIABLES, {
    ofrep: true,
    manifest: MANIFEST,
    ...options,
  });
  const server = serveLocally(gate.gateway.fetch);
  return {
    ...gate,
    url: server.url,
    async [Symbol.asyncDispose]() {
      await gate.gateway.close();
      await server.shutdown();
    },
  };
}

/** Gives the web SDK a provider, without the cache of a browser. The test has to close the SDK. */
async function connect(
  baseUrl: string,
  fetchImplementation: typeof fetch = fetch,
) {
  const options = { baseUrl, fetchImplementation, cacheMode: "disabled" };
  const provider = new OFREPWebProvider(options as { baseUrl: string });
  await OpenFeature.setProviderAndWait(provider as Provider);
}

/** Resolves with the names of the flags that the next change concerns. */
async function nextChange(): Promise<readonly string[]> {
  const { promise, resolve } = Promise.withResolvers<readonly string[]>();
  const event = ClientProviderEvents.ConfigurationChanged;
  const heard = new AbortController();
  OpenFeature.getClient().addHandler(
    event,
    (details) => resolve(details?.flagsChanged ?? []),
    { signal: heard.signal },
  );
  const changed = await within(promise);
  heard.abort();
  return changed;
}

Deno.test("the provider of OpenFeature's server SDK reads flags of each type", async () => {
  await using gate = await serve({ basePath: "/app" });
  const provider = new OFREPProvider({ baseUrl: `${gate.url}/app` });
  await OpenFeatureServer.setProviderAndWait(provider);
  const client = OpenFeatureServer.getClient();
  const context = { targetingKey: "user-1" };
  assertEquals([
    await client.getStringValue("TITLE", "none", context),
    await client.getNumberValue("COUNT", 0, context),
    await client.getBooleanValue("IS_ON", false),
    await client.getObjectValue("LIMITS", {}),
  ], VALUES);
  const missing = await client.getStringDetails("NONE", "default");
  assertEquals(
    [missing.value, missing.reason, missing.errorCode],
    ["default", "ERROR", "FLAG_NOT_FOUND"],
  );
  await gate.set({ ...VARIABLES, REP_PUBLIC_TITLE: "Good morning" });
  const { value, reason } = await client.getStringDetails("TITLE", "none");
  assertEquals([value, reason], ["Good morning", "STATIC"]);
  await OpenFeatureServer.close();
});

Deno.test("the provider of OpenFeature's web SDK reads flags of each type, and learns of each change", async () => {
  await using gate = await serve({ basePath: "/app" });
  await connect(`${gate.url}/app`);
  const client = OpenFeature.getClient();
  assertEquals([
    client.getStringValue("TITLE", "none"),
    client.getNumberValue("COUNT", 0),
    client.getBooleanValue("IS_ON", false),
    client.getObjectValue("LIMITS", {}),
  ], VALUES);
  assertEquals(
    client.getNumberDetails("TITLE", 0).errorCode,
    "TYPE_MISMATCH",
  );
  for (const title of ["Good morning", "Good evening"]) {
    const changed = nextChange();
    await gate.set({ ...VARIABLES, REP_PUBLIC_TITLE: title });
    assertEquals(await changed, ["TITLE"]);
    const { value, reason } = client.getStringDetails("TITLE", "none");
    assertEquals([value, reason], [title, "STATIC"]);
  }
  await OpenFeature.close();
});

Deno.test("the web SDK learns of a change that was made after its flags were sent, and before its stream", async () => {
  await using gate = await serve();
  let isFirst = true;
  const changed = nextChange();
  await connect(gate.url, async (request, init) => {
    const response = await fetch(request, init);
    if (isFirst) await gate.set({ ...VARIABLES, REP_PUBLIC_TITLE: "Late" });
    isFirst = false;
    return response;
  });
  assertEquals(await changed, ["TITLE"]);
  assertEquals(OpenFeature.getClient().getStringValue("TITLE", ""), "Late");
  await OpenFeature.close();
});

Deno.test("the web SDK learns of a change from one replica, and gets it from another that has not read it yet", async () => {
  const store = memoryStore();
  await using streams = await serve({ store: remoteStore(store) });
  await using flags = await serve({ store: remoteStore(store) });
  await connect(streams.url, (request, init) => {
    const original = request as Request;
    const url = original.url.replace(streams.url, flags.url);
    return fetch(new Request(url, original), init);
  });
  const changed = nextChange();
  await streams.set({ ...VARIABLES, REP_PUBLIC_TITLE: "New" });
  assertEquals(await changed, ["TITLE"]);
  assertEquals(OpenFeature.getClient().getStringValue("TITLE", ""), "New");
  await OpenFeature.close();
});

testBrowser(
  "a page with OpenFeature's SDK for React shows each change, also one that was made while it was closed",
  async (browser) => {
    await using site = await TempDirectory.make({
      "index.html":
        `<body></body><script type="module" src="page.js"></script>`,
      "page.js": await bundle("tests/_openfeature_page.js"),
    });
    await using gate = await serve({ staticDir: site.path });
    const page = await browser.open(gate.url);
    const shows = (title: string) => page.getByText(title).waitFor();
    await shows("Hello");
    await gate.set({ ...VARIABLES, REP_PUBLIC_TITLE: "Good morning" });
    await shows("Good morning");
    await page.goto("about:blank");
    await gate.set({ ...VARIABLES, REP_PUBLIC_TITLE: "Good evening" });
    await page.goto(gate.url);
    await shows("Good evening");
    await gate.set({ ...VARIABLES, REP_PUBLIC_TITLE: "Good night" });
    await shows("Good night");
  },
);
