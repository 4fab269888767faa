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
  "a request of OpenFeature whose body does not arrive is not waited for",
  { ofrep: true },
  async ({ ask }) => {
    let isCancelled = false;
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("{")),
      cancel: () => void (isCancelled = true),
    });
    const init = { method: "POST", body, duplex: "half" };
    const { promise: late, resolve } = Promise.withResolvers<undefined>();
    const timer = setTimeout(() => resolve(undefined), 5_000);
    const response = ask("/ofrep/v1/evaluate/flags", init);
    const { status } = await Promise.race([response, late]) ?? {};
    clearTimeout(timer);
    equal([status, isCancelled], [200, true]);
  },
);
