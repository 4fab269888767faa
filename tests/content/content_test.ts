import { assertEquals, assertRejects } from "@std/assert";
import {
  type ContentSettings,
  openContent,
} from "../../src/content/content.ts";
import type { Content } from "../../src/core/content.ts";
import { Transfers } from "../../src/core/http/transfers.ts";
import { silentLog } from "../../src/core/observe/log.ts";
import { noMetrics } from "../../src/core/observe/metrics.ts";
import { noTelemetry } from "../../src/core/observe/telemetry.ts";
import { systemClock } from "../../src/core/values/clock.ts";

function open(changed: Partial<ContentSettings>): Promise<Content | undefined> {
  const settings: ContentSettings = {
    staticDir: undefined,
    fallback: undefined,
    staticCacheBytes: 1_000_000,
    upstream: undefined,
    immutable: [],
    basePath: "",
    preserveHost: false,
    upstreamTimeoutMs: 1_000,
    rejectWebsockets: false,
  };
  const services = {
    clock: systemClock,
    log: silentLog,
    metrics: noMetrics,
    telemetry: noTelemetry,
    transfers: new Transfers({
      clock: systemClock,
      log: silentLog,
      maxTransfers: 10,
    }),
    cacheGroup: undefined,
    sharesBytes: false,
    checkRoot: undefined,
    neverServed: () => Promise.resolve([]),
    builds: undefined,
  };
  return openContent({ ...settings, ...changed }, services);
}

Deno.test("openContent() returns undefined if there is nothing to serve", async () => {
  assertEquals(await open({}), undefined);
});

Deno.test("openContent() rejects a directory and an upstream at once", async () => {
  const message =
    "Cannot serve a directory and an upstream at once: expected one of them";
  await assertRejects(
    () => open({ staticDir: ".", upstream: new URL("http://127.0.0.1:9/") }),
    TypeError,
    message,
  );
});
