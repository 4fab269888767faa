/** The gateway of the specification alone: without files, upstream, engines and add-ons. */
import { assertEquals } from "@std/assert";
import type { Addon } from "../../src/core/addon.ts";
import { createCore } from "../../src/core/core.ts";
import { Transfers } from "../../src/core/http/transfers.ts";
import {
  resolveServices,
  resolveSettings,
  resolveSources,
} from "../../src/options.ts";
import { FakeClock } from "../../tools/fake_clock.ts";

/** Creates and starts a core with one PUBLIC and one SENSITIVE variable. */
async function startCore(addons: readonly Addon[] = []) {
  const clock = new FakeClock();
  const variables = { REP_PUBLIC_A: "1", REP_SENSITIVE_B: "secret" };
  const options = { clock, variables, hotReload: true, maxTransfers: 10 };
  const services = resolveServices(options);
  const { log } = services;
  const core = await createCore(
    resolveSettings(options),
    services,
    resolveSources(options, () => "variables"),
    {
      version: "1.2.3",
      scheme: undefined,
      content: undefined,
      transfers: new Transfers({ clock, log, maxTransfers: 10 }),
      addons,
      decode: (response) => response,
      rendering: undefined,
    },
  );
  await core.start();
  const ask = async (path: string) =>
    await core.fetch(new Request(`http://core.test${path}`));
  return { core, ask };
}

Deno.test("createCore() alone answers the three endpoints, and 404 to everything else", async () => {
  const { core, ask } = await startCore();
  await using _core = core;
  const health = await (await ask("/rep/health")).json();
  assertEquals(health, {
    status: "healthy",
    version: "1.2.3",
    variables: { public: 1, sensitive: 1, server: 0 },
    guardrails: { warnings: 0, blocked: 0 },
    uptime_seconds: 0,
  });
  const { key } = await (await ask("/rep/session-key")).json();
  assertEquals(atob(key).length, 32);
  const stream = await ask("/rep/changes");
  assertEquals(stream.headers.get("content-type"), "text/event-stream");
  await stream.body?.cancel();
  for (const path of ["/", "/rep/client.js", "/rep/status", "/ofrep/v1/x"]) {
    const response = await ask(path);
    assertEquals([path, response.status], [path, 404]);
    await response.body?.cancel();
  }
});

Deno.test("createCore() gives an add-on the parts, serves its routes, and ends it", async () => {
  const ended: string[] = [];
  const addon: Addon = ({ configuration, health, pageValues }) => ({
    routes: {
      "/added": {
        handler: () =>
          Response.json([
            health.report().status,
            [...configuration.snapshot.public.keys()],
            [...pageValues().values.sensitive.keys()],
          ]),
      },
    },
    internalRoutes: { "/internal": { handler: () => new Response("inside") } },
    close: () => void ended.push("closed"),
  });
  const { core, ask } = await startCore([addon]);
  const added = await (await ask("/added")).json();
  assertEquals(added, ["healthy", ["A"], ["B"]]);
  const outside = await ask("/internal");
  assertEquals(outside.status, 404);
  await outside.body?.cancel();
  const inside = await core.fetchHealth(
    new Request("http://core.test/internal"),
  );
  assertEquals(await inside.text(), "inside");
  assertEquals(ended, []);
  await core.close();
  assertEquals(ended, ["closed"]);
});

Deno.test("createCore() keeps its endpoints if an add-on has one of the same path", async () => {
  const handler = () => new Response("replaced");
  const replaces: Addon = () => ({ routes: { "/rep/health": { handler } } });
  const { core, ask } = await startCore([replaces]);
  await using _closed = core;
  const response = await ask("/rep/health");
  assertEquals((await response.json()).status, "healthy");
});

Deno.test("createCore() has the problems of its add-ons in the health report", async () => {
  const { core, ask } = await startCore([
    () => ({ problems: () => ({ certificate_ended: 0, other: undefined }) }),
    () => ({}),
    () => ({ problems: () => ({ site_rejected: 1_000 }) }),
  ]);
  await using _core = core;
  const { status, problems, problems_since } = await (await ask("/rep/health"))
    .json();
  assertEquals([status, problems, problems_since], [
    "degraded",
    ["certificate_ended", "site_rejected"],
    {
      certificate_ended: "1970-01-01T00:00:00.000Z",
      site_rejected: "1970-01-01T00:00:01.000Z",
    },
  ]);
});
