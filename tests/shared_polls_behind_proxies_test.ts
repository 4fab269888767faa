/** Polls that the caches of `examples/proxies` answer, as pages of many clients and of two sites send them. */
import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import { FakeClock } from "../tools/fake_clock.ts";
import { HOST, TLS } from "./_app_client.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import {
  atPorts,
  HAPROXY,
  NGINX,
  type ProxyProgram,
  readConfig,
  RunningProxy,
  testProxy,
} from "./_proxy.ts";
import { serveLocally } from "./_serve.ts";

/** The id of the first event of each gateway, which are started at the same moment. */
const CURSOR = 1_700_000_000_000_000;
/** The response is stored for 30 s: longer than the step that counts takes. */
const POLL = `/rep/changes?last_event_id=${CURSOR}&poll=60`;
const OTHER_HOST = "other.example.com";
/** What Chromium's `EventSource` sends behind a login; a browser that reconnects adds the last line. */
const EVENT_SOURCE = [
  "Accept: text/event-stream",
  "Accept-Encoding: gzip, br",
  "Cache-Control: no-cache",
  "Pragma: no-cache",
  "Authorization: Basic dXNlcjpwYXNz",
  "Cookie: session=1",
  `Last-Event-ID: ${CURSOR}`,
];

/** What of a response a page sees. */
interface Received {
  readonly status: number;
  readonly head: string;
  readonly values: readonly string[];
}

/** Two sites behind a proxy. */
interface Proxied extends AsyncDisposable {
  readonly sites: readonly [TestGateway, TestGateway];
  /** The queries that have reached a site. */
  readonly queries: string[];
  /** What the gateway's server does with a request. @default {it asks the site of the host} */
  intercept: (respond: () => Promise<Response>) => Promise<Response>;
  /** Ends the gateway's server. From then on, its port closes each connection. */
  goAway(): Promise<ReturnType<typeof closingServer>>;
  /** Sends a request as it is, with these lines. */
  ask(target: string, lines?: readonly string[]): Promise<Received>;
}

async function start(program: ProxyProgram, path: string): Promise<Proxied> {
  await using stack = new AsyncDisposableStack();
  const start = async (name: string) => {
    const options = {
      clock: new FakeClock(CURSOR / 1_000),
      trustedProxies: ["127.0.0.1"],
    };
    return stack.use(await setUp({ REP_PUBLIC_A: `${name}-1` }, options));
  };
  const sites = [await start("app"), await start("other")] as const;
  const queries: string[] = [];
  const server = serveLocally((request, info) => {
    const { pathname, search } = new URL(request.url);
    if (pathname === "/readyz") return new Response();
    queries.push(search);
    const isOther = request.headers.get("host")?.includes(OTHER_HOST) ?? false;
    const { gateway } = sites[isOther ? 1 : 0];
    return proxied.intercept(async () => await gateway.fetch(request, info));
  });
  stack.defer(() => server.shutdown());
  const config = atPorts(
    await readConfig(program),
    new Map([[8080, server.port], [8081, server.port]]),
  );
  const proxy = stack.use(
    await RunningProxy.start(program, path, config),
  );
  const caCerts = [await Deno.readTextFile(new URL("ca.crt", TLS))];
  const all = stack.move();
  const proxied: Proxied = {
    sites,
    queries,
    intercept: (respond) => respond(),
    async goAway() {
      await server.shutdown();
      return closingServer(server.port);
    },
    async ask(target, lines = [`Host: ${HOST}`, ...EVENT_SOURCE]) {
      using connection = await Deno.startTls(
        await Deno.connect({ hostname: "127.0.0.1", port: proxy.port }),
        { hostname: HOST, caCerts, alpnProtocols: ["http/1.1"] },
      );
      const head = [`GET ${target} HTTP/1.1`, ...lines, "Connection: close"];
      await connection.write(
        new TextEncoder().encode(head.join("\r\n") + "\r\n\r\n"),
      );
      return received(await new Response(connection.readable).text());
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
  return proxied;
}

function received(text: string): Received {
  const [, status] = /^HTTP\/1\.1 (\d+)/.exec(text) ?? [];
  const found = text.matchAll(/"value":"([^"]*)"/g);
  return {
    status: Number(status),
    head: text.slice(0, text.indexOf("\r\n\r\n")).toLowerCase(),
    values: [...found].map(([, value = ""]) => value),
  };
}

function hostLines(host: string) {
  return [`Host: ${host}`, ...EVENT_SOURCE];
}

/** How many polls have reached the gateway. */
function pollsOf({ queries }: Proxied) {
  return queries.filter((query) => query.includes("poll")).length;
}

async function testCollapse(proxied: Proxied) {
  for (let time = 0; time < 3; time++) await proxied.ask(POLL); // nginx stores the second
  const before = pollsOf(proxied);
  assertLessOrEqual(before, 2);
  const { head } = await proxied.ask(POLL);
  assertEquals(
    /^(vary|content-encoding|x-accel-buffering):/m.test(head),
    false,
  );
  const all = await Promise.all(
    Array.from({ length: 50 }, () => proxied.ask(POLL)),
  );
  assertEquals(
    new Set(all.map(({ status, values }) => `${status} ${values}`)),
    new Set(["200 "]),
  );
  assertEquals(pollsOf(proxied), before);
}

/** nginx passes on two requests for a new cursor, however many pages ask for it at the same time. */
async function testHerd(proxied: Proxied) {
  const before = pollsOf(proxied);
  const target = "/rep/changes?last_event_id=3&poll=60";
  await Promise.all(Array.from({ length: 50 }, () => proxied.ask(target)));
  assertEquals(pollsOf(proxied) - before, 2);
}

/** The response for the old cursor is stored, and that for another interval is not yet. */
async function testChange(proxied: Proxied) {
  const [site] = proxied.sites;
  await site.set({ REP_PUBLIC_A: "app-2" });
  const other = POLL.replace("poll=60", "poll=15");
  assertEquals((await proxied.ask(other)).values, ["app-2"]);
}

async function testOtherPolls(proxied: Proxied) {
  const targets = [
    `/rep/changes?poll`,
    `/rep/changes?last_event_id=${CURSOR}&poll=20`,
    `/rep/changes?last_event_id=${CURSOR}&poll=10&state=abc`,
    `/rep/changes?last_event_id=${CURSOR}&heartbeat=event&poll`,
    `/rep/changes?last_event_id=007&poll=10`,
  ];
  for (const target of targets) {
    proxied.queries.length = 0;
    for (let time = 0; time < 3; time++) await proxied.ask(target);
    assertEquals([target, pollsOf(proxied)], [target, 3]);
  }
}

async function testSites(proxied: Proxied) {
  const whole = "/rep/changes?last_event_id=0&poll=10";
  for (let time = 0; time < 3; time++) {
    for (const [host, value] of [[HOST, "app"], [OTHER_HOST, "other"]]) {
      const { values } = await proxied.ask(whole, hostLines(`${host}`));
      assert(values.every((it) => it.startsWith(`${value}-`)), `${values}`);
      assertEquals(values.length, 1);
    }
  }
  // A request that names two hosts: the one of the URL must not get what the gateway says for the other.
  const twoHosts = "/rep/changes?last_event_id=0&poll=15";
  for (let time = 0; time < 3; time++) {
    await proxied.ask(`https://${HOST}${twoHosts}`, hostLines(OTHER_HOST));
    await proxied.ask(`https://${OTHER_HOST}${twoHosts}`, hostLines(HOST));
  }
  for (const [host, value] of [[HOST, "app"], [OTHER_HOST, "other"]]) {
    const { values } = await proxied.ask(twoHosts, hostLines(`${host}`));
    assert(values.every((it) => it.startsWith(`${value}-`)), `${values}`);
    assertEquals(values.length, 1);
  }
}

/** A cache must not store a rejection, which each page with the cursor would get. */
async function testRejections(proxied: Proxied) {
  const target = "/rep/changes?last_event_id=1&poll=30";
  const unavailable = { status: 503, headers: { "cache-control": "no-store" } };
  proxied.intercept = () => Promise.resolve(new Response(null, unavailable));
  for (let time = 0; time < 3; time++) {
    assertEquals((await proxied.ask(target)).status, 503);
  }
  proxied.intercept = (respond) => respond();
  assertEquals((await proxied.ask(target)).status, 200);
}

/** While the gateway stops, and while it is away, nginx answers with what it has; when it is away, only as long as it may. */
async function testOutage(proxied: Proxied) {
  const target = "/rep/changes?last_event_id=2&poll=30";
  const forgotten = "/rep/changes?last_event_id=2&poll=60";
  proxied.intercept = async (respond) => {
    const response = await respond();
    const old = response.headers.get("cache-control")!
      .replace("max-age=15, stale-if-error=60", "max-age=1, stale-if-error=60")
      .replace("max-age=30, stale-if-error=60", "max-age=1, stale-if-error=2");
    response.headers.set("cache-control", old);
    return response;
  };
  for (const each of [target, forgotten]) {
    for (let time = 0; time < 3; time++) await proxied.ask(each);
  }
  const rejection = { status: 503, headers: { "cache-control": "no-store" } };
  proxied.intercept = () => Promise.resolve(new Response(null, rejection));
  const polls = pollsOf(proxied);
  const hasFailed = () => pollsOf(proxied) >= polls + 3; // the response has expired
  while (!hasFailed()) {
    const { status, head } = await proxied.ask(target);
    assertEquals([status, head.includes("max-age=1,")], [200, true]);
  }

  await using away = await proxied.goAway();
  while (away.connections < 3) {
    const { status, head } = await proxied.ask(target);
    assertEquals([status, head.includes("max-age=1,")], [200, true]);
  }
  const endsAt = performance.now() + 15_000;
  let status = 200;
  while (status === 200 && performance.now() < endsAt) {
    status = (await proxied.ask(forgotten)).status;
  }
  assertEquals(status, 502);
}

/** Closes each connection, and counts them. */
function closingServer(port: number) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port });
  const away = {
    connections: 0,
    async [Symbol.asyncDispose]() {
      listener.close();
      await accepting;
    },
  };
  async function accept() {
    for await (const connection of listener) {
      away.connections++;
      connection.close();
    }
  }
  const accepting = accept();
  return away;
}

for (const program of [NGINX, HAPROXY]) {
  const file = `examples/proxies/${program.config}`;
  await testProxy(
    program,
    `${file} answers the polls of all pages with the same cursor, and no others`,
    async (path, context) => {
      await using proxied = await start(program, path);
      const steps = {
        "one answer for all": testCollapse,
        "a change": testChange,
        "polls that are for their client": testOtherPolls,
        "two sites with the same cursor": testSites,
        "a rejection": testRejections,
        ...(program === NGINX && {
          "many pages at the same time": testHerd,
          "an outage": testOutage, // the last one: the gateway's server has ended
        }),
      };
      for (const [name, step] of Object.entries(steps)) {
        await context.step(name, () => step(proxied));
      }
    },
  );
}
