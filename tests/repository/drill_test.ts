/** Compares the documents with the fault drill, and tests that it notices a lost event. Nothing here runs it. */
import { assertEquals } from "@std/assert";
import { cannotExtract } from "../../tools/drill/checkout.ts";
import { FAULTS } from "../../tools/drill/faults.ts";
import { OlderPages } from "../../tools/drill/older_pages.ts";
import { readConfig } from "../../tools/drill/proxy.ts";
import { forbidden } from "../../tools/drill/report.ts";
import { together, Users } from "../../tools/drill/users.ts";
import { until } from "../../tools/drill/waiting.ts";

/** What a replica's health is besides its problems. */
const STATUSES = ["stopping", "no answer"];

/** Returns what the faults look for in one place, such as `log`. */
function namesIn(place: string): string[] {
  const names = FAULTS.flatMap(({ names }) => names);
  return names.filter((name) => name.startsWith(`${place} `))
    .map((name) => name.slice(place.length + 1));
}

Deno.test("docs/reliability.md has a row for every fault of the drill, in its order, and for no other", async () => {
  const page = await Deno.readTextFile("docs/reliability.md");
  const [, table = ""] = /\n\| fault [^\n]*\n\| -[^\n]*\n((?:\|[^\n]*\n)*)/
    .exec(page) ?? [];
  const rows = table.trim().split("\n");
  assertEquals(
    rows.map((row) => row.split("|")[1]?.trim()),
    FAULTS.map(({ name }) => name),
  );
});

Deno.test("the drill looks for log events, problems and metrics that exist", async () => {
  const page = await Deno.readTextFile("docs/operations.md");
  const documented = page.matchAll(/^\| `([\w.]+)`/gm).map(([, name]) => name);
  const known = new Set([...documented, ...STATUSES]);
  const names = [
    ...namesIn("log"),
    ...namesIn("health"),
    ...namesIn("metric").map((metric) => metric.split(/[ {]/)[0]!),
  ];
  assertEquals(names.filter((name) => !known.has(name)), []);
});

Deno.test("the drill's HAProxy has the shipped configuration, with nothing outside 127.0.0.1 and the drill", async () => {
  const config = await readConfig({
    port: 1,
    pemPath: "/drill/gateway.pem",
    ports: { a: [2, 3], b: [4, 5] },
  });
  const own = config.split("\n").filter((line) =>
    /^ *(bind|server) /.test(line)
  ).map((line) => line.trim());
  assertEquals(own, [
    "bind 127.0.0.1:1 ssl crt /drill/gateway.pem alpn h2,http/1.1 ssl-min-ver TLSv1.2",
    "server cache abns@polls-1", // of HAProxy itself
    "bind abns@polls-1",
    "server gateway 127.0.0.1:2 check port 3",
    "server second 127.0.0.1:4 check port 5",
    "server gateway 127.0.0.1:2 track gateway/gateway",
    "server second 127.0.0.1:4 track gateway/second",
  ]);
});

/** Serves a stream with these ids to one client, and with those to the next one; a page is empty. */
function serveStreams(...ids: (readonly number[])[]) {
  let opened = 0;
  const options = { hostname: "127.0.0.1", port: 0, onListen() {} };
  return Deno.serve(options, ({ url }) => {
    if (!url.endsWith("/rep/changes")) return new Response();
    const events = ids[opened++]!.map((id) =>
      `event: rep:config:update\ndata: {"key":"PULSE","value":"${id}"}\nid: ${id}\n\n`
    );
    const text = `retry: 60000\nid: 1\n\n${events.join("")}`;
    return new Response(
      new ReadableStream({
        start: (controller) =>
          controller.enqueue(new TextEncoder().encode(text)),
      }),
    );
  });
}

Deno.test("users of the drill notice an event that one stream has not received, and one that came twice", async () => {
  const server = serveStreams([2, 3, 4], [2, 4, 4]);
  const users = new Users({
    url: `http://127.0.0.1:${server.addr.port}`,
    streams: 2,
    requestsPerSecond: 1 / 60,
    pulse: () => Promise.resolve(true),
    secondsBetweenPulses: 60,
    random: () => 0,
  });
  const { signal } = new AbortController();
  await until(() => users.allHave("PULSE", "4"), { what: "events", signal });
  assertEquals([users.take().lost, users.take().lost], [2, 0]);
  await users[Symbol.asyncDispose]();
  await server.shutdown();
});

Deno.test("a page is older by the time since a page with a newer value arrived, and not if it was requested before", () => {
  const pages = new OlderPages();
  const add = (value: number, requestedAt: number, receivedAt: number) =>
    pages.add(value, { requestedAt, receivedAt });
  assertEquals(add(1, 0, 10), 0);
  assertEquals(add(3, 20, 30), 0);
  assertEquals(add(1, 25, 80), 0); // overtaken
  assertEquals(add(2, 50, 60), 20);
  assertEquals(add(1, 70, 80), 40);
  assertEquals(add(3, 90, 95), 0);
});

Deno.test("users must not notice some failures of an upgrade", () => {
  const noticed = {
    ...together([]),
    failures: new Map([["key 410", 2], ["page 503", 1]]),
  };
  assertEquals(forbidden({ never: ["key 4"] }, noticed), [
    "users must not notice: key 410",
  ]);
  assertEquals(forbidden({}, noticed), []);
});

Deno.test("a commit that is not in the clone is named", async () => {
  const missing = "0".repeat(40);
  assertEquals(
    await cannotExtract(missing),
    `no commit ${missing} here: git fetch --unshallow brings it`,
  );
});
