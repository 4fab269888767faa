import { assertEquals } from "@std/assert";
import { INSTRUMENT_NAMES, INSTRUMENTS } from "../../src/observe/metrics.ts";
import { openTelemetry } from "../../src/observe/open_telemetry.ts";
import { OpenTelemetryMetrics } from "../../src/observe/open_telemetry_metrics.ts";
import { stdFlags } from "../../tools/std.ts";

Deno.test("openTelemetry() returns nothing unless OTEL_DENO is true", async () => {
  assertEquals(await openTelemetry(), undefined);
});

type Meter = ConstructorParameters<typeof OpenTelemetryMetrics>[0];

Deno.test("OpenTelemetryMetrics creates every instrument, and passes measurements on with their label", () => {
  const created: string[] = [];
  const measured: unknown[] = [];
  const described: unknown[] = [];
  const create =
    (kind: string) =>
    (name: string, { description }: { description: string }) => {
      created.push(name);
      described.push(description);
      return {
        add: (...args: unknown[]) => measured.push([kind, name, ...args]),
        record: (...args: unknown[]) => measured.push([kind, name, ...args]),
        addCallback: (read: (result: unknown) => void) =>
          read({
            observe: (...args: unknown[]) =>
              measured.push([kind, name, ...args]),
          }),
      };
    };
  const meter = {
    createCounter: create("counter"),
    createHistogram: create("histogram"),
    createObservableGauge: create("gauge"),
  };
  const metrics = new OpenTelemetryMetrics(meter as unknown as Meter);
  assertEquals(created, INSTRUMENT_NAMES);
  assertEquals(
    described,
    INSTRUMENT_NAMES.map((name) => INSTRUMENTS[name].help),
  );
  metrics.count("rep.events.delivered", 3);
  metrics.count("rep.session_keys.rejected", 1, "origin_mismatch");
  metrics.count("rep.requests", 1, "/* 4xx");
  metrics.record("rep.store.duration", 0.5, "read");
  metrics.observe("rep.streams.open", () => 7);
  metrics.observe("rep.rollout.active", () => new Map([["abc", 1]]));
  metrics.observe("rep.tls.not_after_timestamp_seconds", () => undefined);
  assertEquals(measured, [
    ["counter", "rep.events.delivered", 3, {}],
    ["counter", "rep.session_keys.rejected", 1, { reason: "origin_mismatch" }],
    ["counter", "rep.requests", 1, { route: "/*", status: "4xx" }],
    ["histogram", "rep.store.duration", 0.5, { operation: "read" }],
    ["gauge", "rep.streams.open", 7],
    ["gauge", "rep.rollout.active", 1, { configuration: "abc" }],
  ]);
});

/** A gateway that serves two requests and exports to the console, since an exporter would need a collector. */
const PROGRAM = `
  import { createGateway } from "@rep/gateway";
  import { openTelemetry } from "${new URL(
  "../../src/observe/open_telemetry.ts",
  import.meta.url,
)}";
  const gateway = await createGateway({ variables: { REP_PUBLIC_A: "1" }, telemetry: await openTelemetry() });
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, gateway.fetch);
  for (const path of ["rep/health", "rep/session-key", "users/17"]) {
    await (await fetch(\`http://127.0.0.1:\${server.addr.port}/\${path}\`)).text();
  }
  await server.shutdown();
  await gateway.close();
`;

Deno.test("with OTEL_DENO, metrics are exported and spans are named by their route", async () => {
  const env = {
    OTEL_DENO: "true",
    OTEL_EXPORTER_OTLP_PROTOCOL: "console",
    NO_COLOR: "1",
  };
  const args = ["eval", ...await stdFlags(), "--ext=ts", PROGRAM];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args,
    env,
    stdout: "null",
  }).output();
  const text = new TextDecoder().decode(stderr);
  assertEquals(success, true, text);
  const spans = ["GET /rep/health", "GET /rep/session-key", "GET /*"];
  const metrics = ["rep.store.duration", "rep.session_keys.rejected"]; // gauges are read at intervals only;
  assertEquals(
    [...spans, ...metrics].filter((name) => !text.includes(name)),
    [],
    text,
  );
});
