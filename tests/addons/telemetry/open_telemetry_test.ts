import { assertEquals } from "@std/assert";
import {
  type Instrument,
  INSTRUMENT_NAMES,
  INSTRUMENTS,
} from "../../../src/core/observe/metrics.ts";
import { openTelemetry } from "../../../src/addons/telemetry/open_telemetry.ts";
import { OpenTelemetryMetrics } from "../../../src/addons/telemetry/open_telemetry_metrics.ts";
import {
  logWithSpanIds,
  noTelemetry,
} from "../../../src/core/observe/telemetry.ts";
import { stdFlags } from "../../../tools/std.ts";
import { runDeno, startCommand, startServe } from "../../_command.ts";
import { captureLog } from "../../_gateway.ts";
import {
  attributesOf,
  OtlpCollector,
  SPAN_KIND,
} from "../../_otlp_collector.ts";
import { TempDirectory } from "../../_temp.ts";

Deno.test("openTelemetry() returns nothing unless OTEL_DENO is true", async () => {
  assertEquals(await openTelemetry(), undefined);
});

type Meter = ConstructorParameters<typeof OpenTelemetryMetrics>[0];

Deno.test("OpenTelemetryMetrics creates every instrument but those of the runtime, and passes measurements on with their label", () => {
  const created: string[] = [];
  const measured: unknown[] = [];
  const described: unknown[] = [];
  const create = (kind: string) =>
  (
    name: string,
    { description, unit }: { description: string; unit: string },
  ) => {
    created.push(name);
    described.push([description, unit]);
    return {
      add: (...args: unknown[]) => measured.push([kind, name, ...args]),
      record: (...args: unknown[]) => measured.push([kind, name, ...args]),
      addCallback: (read: (result: unknown) => void) =>
        read({
          observe: (...args: unknown[]) => measured.push([kind, name, ...args]),
        }),
    };
  };
  const meter = {
    createCounter: create("counter"),
    createHistogram: create("histogram"),
    createObservableCounter: create("observable counter"),
    createObservableGauge: create("gauge"),
  };
  const metrics = new OpenTelemetryMetrics(meter as unknown as Meter);
  const exported = INSTRUMENT_NAMES.filter((name) =>
    !["http.server.request.duration", "process.start_time"].includes(name)
  );
  assertEquals(created, exported);
  assertEquals(
    described,
    exported.map((name) => {
      const { help, unit }: Instrument = INSTRUMENTS[name];
      return [help, unit ?? ""];
    }),
  );
  metrics.count("rep.events.delivered", 3);
  metrics.count("rep.session_keys.rejected", 1, "origin_mismatch");
  metrics.record("http.server.request.duration", 1, "/* GET 404");
  metrics.record("rep.store.duration", 0.5, "read");
  metrics.observe("rep.streams.open", () => 7);
  metrics.observe("rep.rollout.active", () => new Map([["abc", 1]]));
  metrics.observe("rep.tls.not_after_timestamp", () => undefined);
  metrics.observe("process.cpu.time", () => 1.5);
  assertEquals(measured, [
    ["counter", "rep.events.delivered", 3, {}],
    ["counter", "rep.session_keys.rejected", 1, { reason: "origin_mismatch" }],
    ["histogram", "rep.store.duration", 0.5, { operation: "read" }],
    ["gauge", "rep.streams.open", 7],
    ["gauge", "rep.rollout.active", 1, { configuration: "abc" }],
    ["observable counter", "process.cpu.time", 1.5],
  ]);
});

/** A gateway that serves two requests and exports to the console, since an exporter would need a collector. */
const PROGRAM = `
  import { createGateway } from "@rep/gateway";
  import { openTelemetry } from "${new URL(
  "../../../src/addons/telemetry/open_telemetry.ts",
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

Deno.test("with OTEL_DENO, metrics are exported and spans are named by their route, the duration of requests by Deno alone", async () => {
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
  const durations = text.match(/METRIC http\.server\.request\.duration/g);
  assertEquals(durations?.length, 1, text);
  assertEquals(text.includes("http.route=/rep/session-key"), true, text);
});

Deno.test("logWithSpanIds() adds the identifiers of the current span, if there is one", () => {
  const { log, lines } = captureLog();
  const ids = { trace_id: "0a", span_id: "0b" };
  const telemetry = { ...noTelemetry, spanIds: () => ids };
  const withIds = logWithSpanIds(log, telemetry);
  const outside = { ...noTelemetry, spanIds: () => undefined };
  logWithSpanIds(log, outside).info("rep.test", { a: 1 });
  for (const level of ["debug", "info", "warn", "error"] as const) {
    withIds[level]("rep.test", { a: 1 });
  }
  assertEquals(
    lines.map(({ level, a, trace_id, span_id }) => [
      level,
      a,
      trace_id,
      span_id,
    ]),
    [
      ["INFO", 1, undefined, undefined],
      ["DEBUG", 1, "0a", "0b"],
      ["INFO", 1, "0a", "0b"],
      ["WARN", 1, "0a", "0b"],
      ["ERROR", 1, "0a", "0b"],
    ],
  );
});

const TRACE_ID = "0aeea6763f665e33ab7ecad88bad1fbd";
const CLIENT_SPAN_ID = "4253614843ebfe7b";
/** The headers of a client that traces its requests. */
const TRACED = { traceparent: `00-${TRACE_ID}-${CLIENT_SPAN_ID}-01` };

/** An upstream that keeps the `traceparent` of each path that it was asked for. */
class TracedUpstream implements AsyncDisposable {
  readonly parents = new Map<string, string | null>();
  readonly #server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => this.#respond(request),
  );

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  #respond(request: Request): Response {
    const { pathname } = new URL(request.url);
    this.parents.set(pathname, request.headers.get("traceparent"));
    if (pathname === "/socket") {
      const { socket, response } = Deno.upgradeWebSocket(request);
      socket.onopen = () => socket.close();
      return response;
    }
    return new Response(null, { status: pathname === "/gone" ? 410 : 200 });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

Deno.test("with OTEL_DENO, the spans of upstream and store lie below the request's, and its log lines name it", async () => {
  await using collector = new OtlpCollector();
  await using upstream = new TracedUpstream();
  await using command = await startCommand(
    ["--upstream", upstream.url, "--kv", ":memory:", "--access-log"],
    { ...collector.environment, REP_SENSITIVE_A: "a" },
  );
  for (const path of ["/found?secret=1", "/gone", "/rep/session-key"]) {
    const headers = { ...TRACED, origin: command.url };
    await (await fetch(command.url + path, { headers })).text();
  }
  const socket = new WebSocket(`${command.url.replace("http", "ws")}/socket`);
  await new Promise((resolve) => socket.onclose = resolve);
  command.signal("SIGTERM");
  assertEquals(await command.ended(), 0);

  const servers = collector.spans.filter(({ kind }) =>
    kind === SPAN_KIND.server
  );
  const calls = collector.spans.filter(({ kind }) => kind === SPAN_KIND.client);
  const found: unknown[] = [];
  for (const { name, parentSpanId, traceId, spanId } of servers) {
    const below = calls.filter((call) => call.parentSpanId === spanId);
    if (traceId === TRACE_ID) {
      found.push([parentSpanId, name, below.map((call) => call.name)]);
    }
  }
  assertEquals(found, [
    [CLIENT_SPAN_ID, "GET /*", ["GET"]],
    [CLIENT_SPAN_ID, "GET /*", ["GET"]],
    [CLIENT_SPAN_ID, "GET /rep/session-key", ["store read", "store write"]],
  ]);
  // Only what a request waits for has a span, and not what the gateway does by itself.
  const ids = servers.map(({ spanId }) => spanId);
  assertEquals(calls.filter((call) => !ids.includes(call.parentSpanId)), []);

  const [toFound, toGone] = calls.filter(({ name }) => name === "GET");
  assertEquals(upstream.parents.get("/found"), parentOf(toFound));
  assertEquals(upstream.parents.get("/gone"), parentOf(toGone));
  assertEquals(attributesOf(toFound!)["url.full"], `${upstream.url}/found`);
  const statuses = [toFound!, toGone!].map((span) =>
    attributesOf(span)["http.response.status_code"]
  );
  assertEquals(statuses.map(Number), [200, 410]);
  assertEquals([toFound?.status.code, toGone?.status.code], [0, 2]);
  const toSocket = servers.find((span) => span.traceId !== TRACE_ID);
  assertEquals(upstream.parents.get("/socket"), parentOf(toSocket));

  const line = await command.logged(({ msg }) => msg === "rep.request");
  const [first] = servers;
  assertEquals([line.trace_id, line.span_id], [TRACE_ID, first?.spanId]);
  const ready = await command.logged(({ msg }) => msg === "rep.listening");
  assertEquals(ready.trace_id, undefined);
});

/** Returns the `traceparent` of what happens below a span. */
function parentOf(span: { traceId: string; spanId: string } | undefined) {
  return span && `00-${span.traceId}-${span.spanId}-01`;
}

Deno.test("without OpenTelemetry, traceparent is forwarded as it was received", async () => {
  await using upstream = new TracedUpstream();
  const args = ["--upstream", upstream.url, "--kv", ":memory:"];
  await using command = await startCommand(args);
  await (await fetch(`${command.url}/page`, { headers: TRACED })).text();
  assertEquals(upstream.parents.get("/page"), TRACED.traceparent);
});

/** Logs a line of each level as the command does. */
const LOG_PROGRAM = `
  import { openLog } from "${new URL(
  "../../../src/command/start/start_log.ts",
  import.meta.url,
)}";
  import { Output } from "${new URL(
  "../../../src/command/start/output.ts",
  import.meta.url,
)}";
  const options = { "log-format": "text", "log-level": "debug", "audit-log": "stdout" };
  const log = openLog({ options, warnings: [] }, new Output());
  for (const level of ["debug", "info", "warn", "error"]) log[level]("rep." + level);
  console.warn("of Deno");
`;

Deno.test("with OTEL_DENO_CONSOLE=replace, lines are exported with their level, and stay on standard output", async () => {
  await using collector = new OtlpCollector();
  const args = ["eval", ...await stdFlags(), "--ext=ts", LOG_PROGRAM];
  const { stdout, stderr } = await runDeno(args, {
    ...collector.environment,
    OTEL_DENO_CONSOLE: "replace",
  });
  const written = stdout.trimEnd().split("\n");
  assertEquals(stderr, "");
  assertEquals(
    written.map((line) => line.split(" ").filter(Boolean)[2]),
    ["rep.debug", "rep.info", "rep.warn", "rep.error", "rep.runtime.warning"],
  );
  const exported = collector.logRecords.map(({ severityText, body }) => [
    severityText,
    body.stringValue.trimEnd(),
  ]);
  const levels = ["DEBUG", "INFO", "WARN", "ERROR", "WARN"];
  assertEquals(
    exported,
    written.map((line, index) => [levels[index], line]),
  );
});

Deno.test("what a thread of deno serve does from its first request on is no part of that request's trace", async () => {
  await using collector = new OtlpCollector();
  await using directory = await TempDirectory.make();
  await using command = await startServe(["--parallel"], {
    ...collector.environment,
    DENO_JOBS: "2",
    REP_GATEWAY_KV: directory.at("kv.sqlite3"),
  });
  // As many connections at once reach both threads, of which one starts with its first request.
  const requests = Array.from({ length: 40 }, () => fetch(`${command.url}/x`));
  for (const response of await Promise.all(requests)) {
    await response.body?.cancel();
  }
  command.signal("SIGTERM");
  assertEquals(await command.ended(), 0);
  const names = new Set(collector.spans.map(({ name }) => name));
  assertEquals([...names], ["GET /*"]);
});
