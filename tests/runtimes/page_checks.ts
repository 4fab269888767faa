/** Pages, and the keys that decrypt them. */
import { check, checkGateway, equal } from "./check.ts";
import { decrypt, isUnchanged, withGateway } from "./fixtures.ts";

checkGateway(
  "inject() adds the configuration, and changes nothing else",
  {},
  async ({ configuration }) => {
    const { rest, payload } = await configuration();
    equal(isUnchanged(rest), true);
    equal(payload.public, { TITLE: "</script>" });
  },
);

checkGateway(
  "the integrity of a page is the SHA-256 of the text that a browser sees",
  {},
  async ({ configuration }) => {
    const { text, integrity } = await configuration();
    const bytes = new TextEncoder().encode(text);
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    equal(integrity, `sha256-${btoa(String.fromCharCode(...hash))}`);
    equal(text.includes("<"), false);
  },
);

check(
  "gateways with one master key decrypt each other's pages, and those with another one do not",
  async () => {
    const options = { masterKey: new Uint8Array(32).fill(7) };
    await withGateway(options, async ({ configuration }) => {
      const page = await configuration();
      const endpoint = page.payload._meta.key_endpoint;
      await withGateway(options, async ({ requestKey }) => {
        const { key } = await (await requestKey(endpoint)).json();
        equal(await decrypt(page, key), { TOKEN: "t0ken" });
      });
      await withGateway({}, async ({ requestKey }) => {
        equal((await requestKey(endpoint)).status, 410);
      });
    });
  },
);

/** Returns what the client reads on a server. The client itself is imported once, by another check, in a page. */
function readTitle(): string | undefined {
  const process = globalThis as unknown as Record<
    symbol,
    { values(): { TITLE?: string } }
  >;
  return process[Symbol.for("@rep/gateway")]?.values().TITLE;
}

checkGateway(
  "the client reads the gateway of its process",
  {},
  async ({ gateway, set }) => {
    await set({ REP_PUBLIC_TITLE: "A" });
    equal(readTitle(), "A");
    equal(gateway.run(() => readTitle()), "A");
    await set({ REP_PUBLIC_TITLE: "B" });
    equal(readTitle(), "B");
  },
);

let requestTitle = "A";

checkGateway(
  "run() keeps the values of a request during a reload",
  { variables: () => ({ REP_PUBLIC_TITLE: requestTitle }) },
  async ({ gateway, configuration }) => {
    await gateway.run(async () => {
      requestTitle = "B";
      await gateway.reload();
      const { payload } = await configuration();
      equal([readTitle(), payload.public], ["A", { TITLE: "A" }]);
    });
    equal(readTitle(), "B");
  },
  "without nodejs_als, there is no node:async_hooks",
);

// Without SENSITIVE variables, with which a page is not stored.
let title = "A";

checkGateway(
  "a page that has not changed is 304, and a changed one is not",
  { variables: () => ({ REP_PUBLIC_TITLE: title }) },
  async ({ gateway, page }) => {
    // A page of an application that has a version.
    const versioned = { headers: { "content-type": "text/html", etag: '"1"' } };
    const etag = (await page({}, versioned)).headers.get("etag") ?? "none";
    const conditional = { "if-none-match": etag };
    equal((await page(conditional, versioned)).status, 304);
    title = "B";
    await gateway.reload();
    equal((await page(conditional, versioned)).status, 200);
  },
);
