/**
 * What a gateway for each host costs in one process: the start, the memory of each site, the CPU while nothing happens,
 * and the longest wait of a request while all sites reload, with each engine; and a page beside a gateway without sites.
 *
 *     deno task bench sites --sites 200 --seconds 20 --rounds 3
 *
 * Each site has an env file, which is watched. Its memory is the difference to a process with one site, divided by their
 * number.
 */
import { delay } from "@std/async/delay";
import { join } from "@std/path";
import { type Engine, withEngines } from "./_engines.ts";
import { load } from "./_load.ts";
import { type Figure, figure, type Report } from "./_report.ts";
import { startCommand } from "./_servers.ts";
import { changeVariable, createSite, type Site } from "./_site.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** How many sites there are, how long each measurement takes, and how often it is repeated. */
export const SITES_SIZES = { sites: 200, seconds: 20, rounds: 3 };

type Sizes = typeof SITES_SIZES;

/** The site of the requests: the address that they are sent to. */
const OWN_SITE = "127.0.0.1";
const KIB = 1_024;

/** Runs the benchmark. */
export async function sitesCost(sizes: Sizes): Promise<Report> {
  await using site = await createSite();
  const figures = await withEngines((engine) => measure(engine, site, sizes));
  return {
    title: `sites: ${sizes.sites} in one process`,
    figures: [...figures, ...await comparePages(site, sizes)],
  };
}

/** Writes the directories of sites. */
async function writeSites(
  { root }: Site,
  name: string,
  count: number,
): Promise<string> {
  const directory = join(root, name);
  for (let index = 0; index < count; index++) {
    const site = index === 0 ? OWN_SITE : `site-${index}.example.com`;
    await Deno.mkdir(join(directory, site), { recursive: true });
    const text = `REP_PUBLIC_SITE=${site}\n`;
    await Deno.writeTextFile(join(directory, site, "app.env"), text);
  }
  return directory;
}

function argsOf(
  { directory, envFile }: Site,
  sites: string,
  kv: string,
): string[] {
  return [
    ...["--sites", sites, "--static-dir", directory, "--env-file", envFile],
    ...["--kv", kv, "--hot-reload", "--hot-reload-mode", "file_watch"],
  ];
}

async function measure(
  { name, kv }: Engine,
  site: Site,
  { sites, seconds, rounds }: Sizes,
): Promise<Figure[]> {
  const slug = name.toLowerCase().replace(/\W+/g, "-");
  const one = await writeSites(site, `one-${slug}`, 1);
  const all = await writeSites(site, `all-${slug}`, sites);
  const starts: number[] = [];
  const memories: number[] = [];
  const idle: number[] = [];
  const waits: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const { memory: base } = await useOf(site, one, kv, seconds);
    const used = await useOf(site, all, kv, seconds);
    starts.push(used.startMs);
    memories.push((used.memory - base) / sites / KIB);
    idle.push(used.cpuPercent);
    waits.push(used.waitMs);
  }
  return [
    figure(`${name}: start`, "ms", starts),
    figure(`${name}: memory of a site`, "KiB", memories),
    figure(`${name}: CPU while nothing happens`, "%", idle),
    figure(`${name}: longest wait while all reload`, "ms", waits),
  ];
}

/** Starts a process, and measures it. */
async function useOf(
  site: Site,
  sites: string,
  kv: string,
  seconds: number,
) {
  await using gateway = await startCommand(argsOf(site, sites, kv));
  await delay(Math.min(3_000, seconds * 1_000)); // the files are settled, and the code is compiled
  const before = await gateway.usage();
  await delay(seconds * 1_000);
  const after = await gateway.usage();
  return {
    startMs: gateway.startMs,
    memory: after.rss,
    cpuPercent: (after.cpuUs - before.cpuUs) / seconds / 10_000,
    waitMs: await longestWait(gateway, site, seconds),
  };
}

/** Changes a variable of all sites, and returns the longest time that a request for health took meanwhile. */
async function longestWait(
  gateway: SubjectProcess,
  site: Site,
  seconds: number,
): Promise<number> {
  await changeVariable(site);
  let longest = 0;
  const endsAt = performance.now() + Math.min(5_000, seconds * 1_000);
  while (performance.now() < endsAt) {
    const startedAt = performance.now();
    await (await fetch(`${gateway.url}/rep/health`)).body?.cancel();
    longest = Math.max(longest, performance.now() - startedAt);
    await delay(2);
  }
  return longest;
}

/** Compares a page of a site with that of a gateway without sites, in alternating rounds. */
async function comparePages(
  site: Site,
  { sites, seconds, rounds }: Sizes,
): Promise<Figure[]> {
  const all = await writeSites(site, "pages", sites);
  const args = argsOf(site, all, ":memory:");
  await using withSites = await startCommand(args);
  await using alone = await startCommand(args.slice(2));
  const ratios: number[] = [];
  const perSecond = async ({ url }: SubjectProcess) =>
    (await load({ url: `${url}/`, connections: 50, seconds: seconds / 10 }))
      .perSecond;
  for (let round = -1; round < 2 * rounds; round++) {
    const first = await perSecond(round % 2 === 0 ? withSites : alone);
    const second = await perSecond(round % 2 === 0 ? alone : withSites);
    const ratio = round % 2 === 0 ? first / second : second / first;
    if (round >= 0) ratios.push(ratio); // the code was not compiled yet
  }
  return [figure("page of a site / without sites", "", ratios)];
}
