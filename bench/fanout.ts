/**
 * Pages that poll in an interval, through caches (`--poll`), beside the same pages with polls that no cache may answer:
 *
 *     deno task bench fanout --pages 20000 --seconds 30
 *     deno task bench fanout --pages 20000 --seconds 30 --caches 3 --sites 2 --alone 0
 *
 * First nothing changes, then a variable of each site, every four seconds. After that, with caches, the gateway is away for
 * three seconds and comes back with the value before (a rollback), and then there is one more change. How many requests
 * reach the gateway, what they cost, how soon a page has a change, and that no page goes back, or gets a value of another
 * site: the cursor that all pages begin with is the same. The caches are processes of nginx; the pages are bare connections
 * of this process, which takes a core for 20,000 requests a second. If polls are sent late, it cannot keep up, and the
 * delays are its own. With `--speed 20`, pages poll twenty times as often, which only shows that everything works.
 */
import { delay } from "@std/async/delay";
import { join } from "@std/path";
import { findFreePort } from "../tools/free_port.ts";
import { FanoutPages } from "./_fanout_pages.ts";
import { startNginxCached } from "./_nginx.ts";
import { type Figure, figure, quantile, type Report } from "./_report.ts";
import { startDeno } from "./_servers.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** The sizes of the benchmark. */
export const FANOUT_SIZES = {
  pages: 2_000,
  /** In seconds: one that `--poll` accepts. */
  interval: 10,
  /** How long nothing changes, and then how long there are changes. */
  seconds: 60,
  changeSeconds: 4,
  caches: 1,
  sites: 1,
  /** Whether the same pages also poll in the way that no cache may answer; 0 for a size at which that is too much. */
  alone: 1,
  speed: 1,
};

type Sizes = typeof FANOUT_SIZES;

/** How long the gateway is away. */
const AWAY_MS = 3_000;

/** Runs the benchmark. */
export async function fanout(sizes: Sizes): Promise<Report> {
  const { interval } = sizes;
  const shared = await observe(sizes, `&poll=${interval}`, goAway);
  const alone = sizes.alone === 0
    ? []
    : await observe(sizes, "&heartbeat=event&poll", () => Promise.resolve([]));
  const pages = sizes.pages.toLocaleString("en");
  return {
    title:
      `fanout: ${pages} pages, every ${interval} s, ${sizes.caches} caches`,
    figures: [
      ...shared,
      ...alone.map((each) => ({ ...each, name: `not cached: ${each.name}` })),
    ],
  };
}

/** The gateway, in a process that can go away and come back. */
class Origin implements AsyncDisposable {
  readonly port: number = findFreePort();
  readonly hosts: readonly string[];
  /** The number in the value of each site. */
  value = 0;
  readonly #healthPort = findFreePort();
  readonly #root: string;
  #process: SubjectProcess | undefined;

  constructor(root: string, sites: number) {
    this.#root = root;
    this.hosts = Array.from(
      { length: sites },
      (_, index) => `site-${index}.example.com`,
    );
  }

  async start(): Promise<void> {
    const args = [
      ...["--hostname", "127.0.0.1", "--port", String(this.port)],
      ...["--health-port", String(this.#healthPort)],
      ...["--sites", this.#root, "--hot-reload", "--poll", "30s"],
      ...["--kv", join(this.#root, "..", "kv.sqlite3")],
    ];
    const port = this.#healthPort;
    this.#process = await startDeno("main.ts", args, port, "/readyz");
  }

  async stop(): Promise<void> {
    await this.#process?.[Symbol.asyncDispose]();
    this.#process = undefined;
  }

  /** Gives each site this value. */
  async write(value: number): Promise<void> {
    this.value = value;
    for (const host of this.hosts) {
      const directory = join(this.#root, host);
      await Deno.mkdir(directory, { recursive: true });
      const text = `REP_PUBLIC_SITE=${host} ${value}\n`;
      await Deno.writeTextFile(join(directory, "app.env"), text);
    }
    this.#process?.reload();
  }

  /** How many polls have reached it, and its CPU time. */
  async usage(): Promise<{ polls: number; cpuUs: number }> {
    const url = `http://127.0.0.1:${this.#healthPort}/metrics`;
    const text = await (await fetch(url)).text();
    const line = /^rep_streams_polled_total (\d+)$/m.exec(text);
    const { cpuUs } = await this.#process!.usage();
    return { polls: Number(line?.[1] ?? 0), cpuUs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** What is observed. */
interface Observed {
  readonly sizes: Sizes;
  readonly origin: Origin;
  readonly pages: FanoutPages;
  readonly caches: readonly SubjectProcess[];
}

/** What happens to pages at the end, and what they have met until then. */
type Ending = (observed: Observed) => Promise<Figure[]>;

async function observe(
  sizes: Sizes,
  query: string,
  ending: Ending,
): Promise<Figure[]> {
  const root = await Deno.makeTempDir();
  try {
    return await observeIn(root, sizes, query, ending);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

async function observeIn(
  root: string,
  sizes: Sizes,
  query: string,
  ending: Ending,
): Promise<Figure[]> {
  await using stack = new AsyncDisposableStack();
  const { interval, speed } = sizes;
  const origin = stack.use(new Origin(join(root, "sites"), sizes.sites));
  await origin.write(0);
  await origin.start();
  const caches: SubjectProcess[] = [];
  for (let index = 0; index < sizes.caches; index++) {
    const folder = join(root, `cache-${index}`);
    const cache = await startNginxCached(folder, origin.port);
    if (cache === undefined) throw new Error("Cannot start nginx: not found");
    caches.push(stack.use(cache));
  }
  const pages = stack.use(
    new FanoutPages({
      pages: sizes.pages,
      hosts: origin.hosts,
      ports: caches.map(({ port }) => port),
      interval,
      speed,
      query,
    }),
  );
  await pages.haveAll(pages.change(0)); // the value at the start
  await delay(interval * 1_000 / speed); // the pages are as evenly spread as they will be
  pages.delays = [];
  pages.latestMs = 0;

  const observed = { sizes, origin, pages, caches };
  const quiet = await measure("quiet", observed, () => waitFor(sizes.seconds));
  const changing = await measure("changes", observed, () => change(observed));
  await pages.haveAll(await publish(observed, origin.value + 1));
  const delays = pages.delays.map((ms) => ms / 1_000);
  const before = [
    figure("a poll was sent late by at most", "s", [pages.latestMs / 1_000]),
    figure("failed requests", "", [pages.failures]),
  ];
  const end = await ending(observed);
  return [
    ...quiet,
    ...changing,
    figure("half of the pages have a change", "s", [quantile(delays, 0.5)]),
    figure("99 % have it", "s", [quantile(delays, 0.99)]),
    figure("all have it", "s", [quantile(delays, 1)]),
    ...before,
    ...end,
    figure("steps back", "", [pages.backwards]),
    figure("values of another site", "", [pages.foreign]),
  ];
}

function waitFor(seconds: number): Promise<void> {
  return delay(seconds * 1_000);
}

/** Gives each site a value, and returns the number of this change. */
async function publish(
  { pages, origin }: Observed,
  value: number,
): Promise<number> {
  const change = pages.change(value);
  await origin.write(value);
  return change;
}

/** Publishes new values for some seconds. */
async function change(observed: Observed): Promise<void> {
  const { sizes: { seconds, changeSeconds }, origin } = observed;
  const endsAt = performance.now() + seconds * 1_000;
  while (performance.now() < endsAt) {
    await publish(observed, origin.value + 1);
    await waitFor(Math.min(changeSeconds, seconds));
  }
}

/** The gateway is away, and comes back with the value before the last one. Then there is another change. */
async function goAway(observed: Observed): Promise<Figure[]> {
  const { sizes: { interval, speed }, origin, pages } = observed;
  await waitFor(2 * interval / speed); // the caches have a response for the newest cursor
  const failures = pages.failures;
  const newest = origin.value;
  await origin.stop();
  await delay(AWAY_MS);
  const rollback = await publish(observed, newest - 1);
  await origin.start();
  await pages.haveAll(rollback);
  await pages.haveAll(await publish(observed, newest + 1));
  return [
    figure("… while the gateway is away", "", [pages.failures - failures]),
  ];
}

/** Returns what a second of something takes. */
async function measure(
  name: string,
  { origin, pages, caches }: Observed,
  during: () => Promise<void>,
): Promise<Figure[]> {
  const before = await origin.usage();
  const cacheBefore = await cpuOf(caches);
  const responses = pages.responses;
  const startedAt = performance.now();
  await during();
  const after = await origin.usage();
  const elapsed = (performance.now() - startedAt) / 1_000;
  const figures: [name: string, unit: string, amount: number][] = [
    ["requests a second", "", pages.responses - responses],
    ["… at the gateway", "", after.polls - before.polls],
    ["CPU of the gateway", "%", (after.cpuUs - before.cpuUs) / 10_000],
    ["CPU of the caches", "%", (await cpuOf(caches) - cacheBefore) / 10_000],
  ];
  return figures.map(([what, unit, amount]) =>
    figure(`${name}: ${what}`, unit, [amount / elapsed])
  );
}

/** The CPU time of processes, in microseconds. */
async function cpuOf(processes: readonly SubjectProcess[]): Promise<number> {
  let sum = 0;
  for (const process of processes) sum += (await process.usage()).cpuUs;
  return sum;
}
