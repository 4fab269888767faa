/** Health, hosts and paths, and session keys. */
import { check, checkGateway, equal } from "./check.ts";
import { ORIGIN, withGateway } from "./fixtures.ts";
import { memoryStore } from "@rep/gateway";

const OTHER = "https://other.example";
const KEY_PATH = "/rep/session-key";

checkGateway(
  "health counts the variables of each tier",
  {},
  async (subject) => {
    const response = await subject.ask("/rep/health");
    const { status, variables } = await response.json();
    equal([response.status, status], [200, "healthy"]);
    equal(variables, { public: 1, sensitive: 1, server: 1 });
    equal(response.headers.get("cache-control"), "no-store");
  },
);

checkGateway(
  "HEAD of health has no body, and POST is not allowed",
  {},
  async ({ ask }) => {
    const head = await ask("/rep/health", { method: "HEAD" });
    equal(await head.text(), "");
    const { status, headers } = await ask("/rep/health", { method: "POST" });
    equal([status, headers.get("allow")], [405, "GET, HEAD"]);
  },
);

checkGateway(
  "health is 503 once the shutdown has begun",
  {},
  async ({ ask, gateway }) => {
    gateway.beginShutdown();
    const response = await ask("/rep/health");
    const { status } = await response.json();
    equal([response.status, status], [503, "stopping"]);
  },
);

checkGateway(
  "handle() leaves the paths of others alone, and fetch() rejects them",
  {},
  async ({ statusOf, gateway }) => {
    const other = new Request(`${ORIGIN}/index.html`);
    equal(await gateway.handle(other) === undefined, true);
    const own = await gateway.handle(new Request(`${ORIGIN}/rep/health`));
    equal(own?.status, 200);
    equal(await statusOf("/index.html"), 404);
  },
);

checkGateway(
  "the client is served in the coding that a browser accepts",
  {},
  async ({ ask }) => {
    const codings = { "br, gzip": "br", "gzip": "gzip", "identity": null };
    for (const [accepted, coding] of Object.entries(codings)) {
      const init = { headers: { "accept-encoding": accepted } };
      const { headers } = await ask("/rep/client.js", init);
      equal(headers.get("content-encoding"), coding);
    }
  },
);

checkGateway(
  "the health port has probes and metrics",
  { separateHealth: true },
  async ({ statusOf, gateway }) => {
    for (const path of ["/livez", "/readyz", "/metrics", "/rep/health"]) {
      const response = await gateway.fetchHealth(new Request(ORIGIN + path));
      equal(response.status, 200);
    }
    equal(await statusOf("/rep/health"), 404);
    const response = await gateway.fetchHealth(
      new Request(`${ORIGIN}/metrics`),
    );
    const metrics = await response.text();
    const isProcess = globalThis.navigator.userAgent !== "Cloudflare-Workers";
    for (const name of ["cpu_seconds_total", "resident_memory_bytes"]) {
      const [, value] =
        new RegExp(`^process_${name} (.*)`, "m").exec(metrics) ??
          [];
      equal(Number(value) > 0, isProcess);
    }
  },
);

checkGateway(
  "a page of the gateway's own origin gets a key of 32 bytes, for at most 30 s",
  {},
  async ({ requestKey }) => {
    const response = await requestKey();
    const { key, expires_at } = await response.json();
    equal([response.status, response.headers.get("vary")], [200, "Origin"]);
    equal(atob(key).length, 32);
    const left = Date.parse(expires_at) - Date.now();
    equal(Math.abs(left - 30_000) < 5_000, true);
  },
);

checkGateway(
  "an allowed origin gets a key, and may read it",
  { allowedOrigins: [OTHER] },
  async ({ ask }) => {
    const init = { headers: { origin: OTHER } };
    const { status, headers } = await ask(KEY_PATH, init);
    equal([status, headers.get("access-control-allow-origin")], [200, OTHER]);
  },
);

checkGateway("another origin gets no key", {}, async ({ ask, lines }) => {
  const init = { headers: { origin: OTHER } };
  const { status, headers } = await ask(KEY_PATH, init);
  equal([status, headers.get("content-type")], [
    403,
    "application/problem+json",
  ]);
  equal(headers.get("access-control-allow-origin"), null);
  const events = lines.map(({ msg }) => msg);
  equal(events.includes("rep.session_key.rejected"), true);
});

checkGateway(
  "a preflight is answered",
  { allowedOrigins: [OTHER] },
  async ({ statusOf }) => {
    const headers = { origin: OTHER, "access-control-request-method": "GET" };
    equal(await statusOf(KEY_PATH, { method: "OPTIONS", headers }), 204);
  },
);

checkGateway(
  "a client gets so many keys a minute and no more, and another one gets its own",
  { sessionKeyMaxRate: 2 },
  async ({ requestKey }) => {
    equal((await requestKey()).status, 200);
    equal((await requestKey()).status, 200);
    const { status, headers } = await requestKey();
    equal([status, Number(headers.get("retry-after")) > 0], [429, true]);
    equal((await requestKey(KEY_PATH, "192.0.2.2")).status, 200);
  },
);

checkGateway(
  "many requests at once get no more keys than a client may have",
  {},
  async ({ requestKey }) => {
    const requests = Array.from({ length: 25 }, () => requestKey());
    const responses = await Promise.all(requests);
    const issued = responses.filter(({ status }) => status === 200);
    equal(issued.length, 10);
  },
);

check("keys are counted in the store, for all gateways on it", async () => {
  const options = { store: memoryStore(), sessionKeyMaxRate: 1 };
  await withGateway(options, (one) =>
    withGateway(options, async (other) => {
      equal((await one.requestKey()).status, 200);
      equal((await other.requestKey()).status, 429);
    }));
});

checkGateway(
  "a kid that is none is 400, and one that is too old is 410",
  {},
  async ({ requestKey, configuration }) => {
    equal((await requestKey(`${KEY_PATH}?kid=x`)).status, 400);
    const { key_endpoint } = (await configuration()).payload._meta;
    const old = key_endpoint.replace(/kid=\d+/, "kid=600");
    equal((await requestKey(old)).status, 410);
  },
);

checkGateway(
  "every key is in the audit log, without the key",
  {},
  async ({ requestKey, lines }) => {
    const { key } = await (await requestKey()).json();
    const events = lines.map(({ msg }) => msg);
    const issued = events.filter((msg) => msg === "rep.session_key.issued");
    equal([issued.length, JSON.stringify(lines).includes(key)], [1, false]);
  },
);
