import { assertEquals } from "@std/assert";
import { LABEL_VALUES } from "../../../src/addons/metrics/metrics.ts";
import { Registry } from "../../../src/addons/metrics/registry.ts";
import { combineMetrics } from "../../../src/core/observe/metrics.ts";
import { SiteMetrics } from "../../../src/command/sites/site_metrics.ts";

function setUp() {
  const registry = new Registry(LABEL_VALUES);
  const metrics = new SiteMetrics(registry, combineMetrics(registry));
  return {
    registry,
    metrics,
    /** The lines of a metric without zeros. */
    linesOf: (name: string) =>
      registry.format().split("\n").filter((line) =>
        line.startsWith(name) && !line.endsWith(" 0")
      ),
  };
}

Deno.test("SiteMetrics names the site in four metrics, and counts all others for the process", () => {
  const { metrics, linesOf } = setUp();
  for (const site of ["", "a.example", "b.example"]) {
    const { metrics: own, gauges } = site === ""
      ? { metrics: metrics.ofProcess(), gauges: undefined }
      : metrics.of(site);
    if (gauges !== undefined) metrics.show(site, gauges);
    own.count("rep.events.published", 2);
    own.count("rep.pages.served", 1);
    own.observe("rep.streams.open", () => 3);
    own.observe("rep.store.up", () => site === "" ? 1 : 7);
    const problems = [["clock_skew", 1], ["other_app", 0]] as const;
    own.observe("rep.health.problem", () => new Map(problems));
  }
  assertEquals(linesOf("rep_events_published_total"), [
    "rep_events_published_total 2",
    'rep_events_published_total{site="a.example"} 2',
    'rep_events_published_total{site="b.example"} 2',
  ]);
  assertEquals(linesOf("rep_pages_served_total"), ["rep_pages_served_total 3"]);
  assertEquals(linesOf("rep_streams_open"), [
    'rep_streams_open{site=""} 3',
    'rep_streams_open{site="a.example"} 3',
    'rep_streams_open{site="b.example"} 3',
  ]);
  assertEquals(linesOf("rep_store_up"), ["rep_store_up 1"]);
  assertEquals(linesOf("rep_health_problem"), [
    'rep_health_problem{type="clock_skew"} 1',
    'rep_health_problem{type="clock_skew",site="a.example"} 1',
    'rep_health_problem{type="clock_skew",site="b.example"} 1',
  ]);
});

Deno.test("SiteMetrics exports the gauges of a site only once it is served", () => {
  const { metrics, linesOf } = setUp();
  const [served, failed] = [1, 2].map((value) => {
    const measured = metrics.of("a.example");
    measured.metrics.observe("rep.streams.open", () => value);
    return measured;
  });
  metrics.show("a.example", served!.gauges);
  assertEquals(linesOf("rep_streams_open"), [
    'rep_streams_open{site="a.example"} 1',
  ]);
  metrics.show("a.example", failed!.gauges);
  assertEquals(linesOf("rep_streams_open"), [
    'rep_streams_open{site="a.example"} 2',
  ]);
});

Deno.test("SiteMetrics.forget() ends all series of a site", () => {
  const { metrics, registry } = setUp();
  const before = registry.format();
  const { metrics: own, gauges } = metrics.of("a.example");
  own.observe("rep.streams.open", () => 1);
  own.count("rep.events.published", 1);
  metrics.show("a.example", gauges);
  metrics.forget("a.example");
  assertEquals(registry.format(), before);
});
