/**
 * Pages that poll in an interval, through caches (`--poll`), beside the same pages with polls that no cache may answer:
 *
 *     deno task bench fanout --pages 20000
 *     deno task bench fanout --pages 200000 --caches 3 --sites 2
 *
 * First nothing changes, then a variable of each site, every four seconds. After that, the gateway is away for three
 * seconds, and then there is one more change. How many requests reach the gateway, what they cost, how soon a page has a
 * change, and that no page goes back, or gets a value of another site: the cursor that all pages begin with is the same.
 * The caches are processes of nginx; the pages are bare connections of this process, which takes a core for 20,000
 * requests a second. With `--speed 20`, pages poll twenty times as often, which only shows that everything works.
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
  speed: 1,
};

type Sizes = typeof FANOUT_SIZES;

/** How long the gateway is away. */
const AWAY_MS = 3_000;

/** Runs the benchmark. */
export async function fanout(sizes: Sizes): Promise<Report> {
  const { interval } = sizes;
  const shared = await observe(sizes, `&poll=${interval}`);
  const alone = await observe(sizes, "&heartbeat=event&poll");
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

async function observe(sizes: Sizes, query: string): Promise<Figure[]> {
  const root = await Deno.makeTempDir();
  try {
    return await observeIn(root, sizes, query);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

async function observeIn(
  root: string,
  sizes: Sizes,
  query: string,
): Promise<Figure[]> {
  await using stack = new AsyncDisposableStack();
  const { seconds, changeSeconds, interval, speed } = sizes;
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
  const change = async () => {
    const value = pages.change();
    await origin.write(value);
    return value;
  };
  pages.change(); // the value at the start
  await pages.haveAll(0);
  await delay(interval * 1_000 / speed); // the pages are as evenly spread as they will be
  pages.delays = [];

  const measure = async (name: string, during: () => Promise<unknown>) => {
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
  };
  const quiet = await measure("quiet", () => delay(seconds * 1_000));
  const changing = await measure("changes", async () => {
    const endsAt = performance.now() + seconds * 1_000;
    while (performance.now() < endsAt) {
      await change();
      await delay(Math.min(changeSeconds, seconds) * 1_000);
    }
  });
  await pages.haveAll(await change());
  const delays = pages.delays.map((ms) => ms / 1_000);
  const failuresBefore = pages.failures;

  await delay(2 * interval * 1_000 / speed); // the caches have a response for the newest cursor
  await origin.stop();
  await delay(AWAY_MS);
  await origin.start();
  await pages.haveAll(await change());
  const failuresWhileAway = pages.failures - failuresBefore;
  const { backwards, foreign } = pages;
  return [
    ...quiet,
    ...changing,
    figure("half of the pages have a change", "s", [quantile(delays, 0.5)]),
    figure("99 % have it", "s", [quantile(delays, 0.99)]),
    figure("all have it", "s", [quantile(delays, 1)]),
    figure("failed requests", "", [failuresBefore]),
    figure("… while the gateway is away", "", [failuresWhileAway]),
    figure("steps back", "", [backwards]),
    figure("values of another site", "", [foreign]),
  ];
}

/** The CPU time of processes, in microseconds. */
async function cpuOf(processes: readonly SubjectProcess[]): Promise<number> {
  let sum = 0;
  for (const process of processes) sum += (await process.usage()).cpuUs;
  return sum;
}
