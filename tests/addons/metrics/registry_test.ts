import { assertEquals } from "@std/assert";
import { LABEL_VALUES } from "../../../src/addons/metrics/metrics.ts";
import {
  INSTRUMENT_NAMES,
  INSTRUMENTS,
} from "../../../src/core/observe/metrics.ts";
import {
  prometheusName,
  Registry,
} from "../../../src/addons/metrics/registry.ts";

/** Returns the lines of one metric, without its description. */
function linesOf(registry: Registry, prefix: string): string[] {
  return registry.format().split("\n").filter((line) =>
    line.startsWith(prefix)
  );
}

Deno.test("format() writes every counter and histogram from the start, with each value of its label", () => {
  assertEquals(
    linesOf(new Registry(LABEL_VALUES), "rep_store_duration_seconds_count"),
    [
      'rep_store_duration_seconds_count{operation="read"} 0',
      'rep_store_duration_seconds_count{operation="write"} 0',
    ],
  );
  assertEquals(linesOf(new Registry(LABEL_VALUES), "rep_store_errors_total"), [
    'rep_store_errors_total{operation="read"} 0',
    'rep_store_errors_total{operation="write"} 0',
  ]);
  assertEquals(linesOf(new Registry(LABEL_VALUES), "rep_pages_served_total"), [
    "rep_pages_served_total 0",
  ]);
});

Deno.test("observe() registers a function that is called whenever the metrics are read", () => {
  const registry = new Registry(LABEL_VALUES);
  assertEquals(linesOf(registry, "rep_streams_open "), []);
  let open = 1;
  registry.observe("rep.streams.open", () => open);
  registry.observe("rep.rollout.active", () => new Map([['a"\\\n', 1]]));
  open = 5;
  assertEquals(linesOf(registry, "rep_streams_open "), ["rep_streams_open 5"]);
  assertEquals(linesOf(registry, "rep_rollout"), [
    'rep_rollout_active{configuration="a\\"\\\\\\n"} 1',
  ]);
});

for (
  const [what, site, expected] of [
    [
      "a terminal interprets",
      "\x1b[2J\x9b31m\r",
      "\\\\u001b[2J\\\\u009b31m\\\\r",
    ],
    ["reverses the text after it", "a\u202eb", "a\\\\u202eb"],
    ["separates the values of labels", "a b  c", "a b  c"],
    ["ends a label", 'a"} 1\nup 0', 'a\\"} 1\\nup 0'],
  ] as const
) {
  Deno.test(`the name of a site in a label may contain what ${what}`, () => {
    const registry = new Registry(LABEL_VALUES);
    const counted = new Map([[`site_rejected ${site}`, 1]]);
    registry.observe(
      "rep.config.last_reload_success",
      () => new Map([[site, 0]]),
    );
    registry.observe("rep.health.problem", () => counted);
    registry.count("rep.events.published", 1, site);
    assertEquals(linesOf(registry, "rep_config_last"), [
      `rep_config_last_reload_success{site="${expected}"} 0`,
    ]);
    assertEquals(linesOf(registry, "rep_health"), [
      `rep_health_problem{type="site_rejected",site="${expected}"} 1`,
    ]);
    assertEquals(linesOf(registry, "rep_events_published_total{"), [
      `rep_events_published_total{site="${expected}"} 1`,
    ]);
  });
}

Deno.test("record() counts a duration in every bucket that is not below it", () => {
  const registry = new Registry(LABEL_VALUES);
  for (const seconds of [0, 0.001, 0.3, 31]) {
    registry.record("rep.upstream.duration", seconds);
  }
  const counts = ["0.001", "0.25", "0.5", "30", "+Inf"].map((le) =>
    linesOf(registry, `rep_upstream_duration_seconds_bucket{le="${le}"}`)[0]
      ?.split(" ").at(-1)
  );
  assertEquals(counts, ["2", "2", "3", "3", "4"]);
  assertEquals(linesOf(registry, "rep_upstream_duration_seconds_sum"), [
    "rep_upstream_duration_seconds_sum 31.301",
  ]);
  assertEquals(linesOf(registry, "rep_upstream_duration_seconds_count"), [
    "rep_upstream_duration_seconds_count 4",
  ]);
});

Deno.test("prometheusName() returns distinct, valid names", () => {
  const names = INSTRUMENT_NAMES.map((name) =>
    prometheusName(name, INSTRUMENTS[name])
  );
  assertEquals(names.filter((name) => !/^[a-z][a-z_]+$/.test(name)), []);
  assertEquals(new Set(names).size, names.length);
});

Deno.test("prometheusName() ends in the unit, and in _total for a counter", () => {
  const nameOf = (name: keyof typeof INSTRUMENTS) =>
    prometheusName(name, INSTRUMENTS[name]);
  assertEquals([
    nameOf("http.server.request.duration"),
    nameOf("rep.tls.not_after_timestamp"),
    nameOf("rep.session_keys.issued"),
    nameOf("process.cpu.time"),
    prometheusName("a.sent", { type: "counter", unit: "By" }),
  ], [
    "http_server_request_duration_seconds",
    "rep_tls_not_after_timestamp_seconds",
    "rep_session_keys_issued_total",
    "process_cpu_seconds_total",
    "a_sent_bytes_total",
  ]);
});

Deno.test("values() returns the values of a gauge or a counter by label", () => {
  const registry = new Registry(LABEL_VALUES);
  registry.observe("rep.streams.open", () => 3);
  registry.count("rep.session_keys.issued", 2);
  registry.count("rep.session_keys.rejected", 1, "malformed");
  assertEquals(registry.values("rep.streams.open"), { "": 3 });
  assertEquals(registry.values("rep.session_keys.issued"), { "": 2 });
  const { malformed, expired } = registry.values("rep.session_keys.rejected");
  assertEquals([malformed, expired], [1, 0]);
});
