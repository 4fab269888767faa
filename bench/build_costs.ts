/**
 * What `--keep-builds` costs, beside the same gateway without it: a start, the CPU of sites while nothing happens, a page
 * and a file. These are rows of the benchmark `builds`; alone:
 *
 *     deno task bench builds --builds 0 --rounds 5 --seconds 20
 */
import { delay } from "@std/async/delay";
import { join } from "@std/path";
import { load } from "./_load.ts";
import { type Figure, figure } from "./_report.ts";
import { startCommand } from "./_servers.ts";
import { ASSET_PATH, createSite, PAGE_PATH, type Site } from "./_site.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** How many rounds there are, and how long each measurement of CPU takes; one of requests takes a tenth of that. */
export interface BuildCostsSizes {
  readonly rounds: number;
  readonly seconds: number;
}

/** A large app. */
const FILES = 300;
const FILE_BYTES = 30_000;
const SITES = 30;
/** When the work of a start is over: the first heartbeats and looks. */
const SETTLED_MS = 3_000;

/** Measures everything; nothing without rounds. */
export async function buildCosts(sizes: BuildCostsSizes): Promise<Figure[]> {
  if (sizes.rounds === 0) return [];
  await using site = await createSite();
  return [
    ...await starts(site, sizes),
    ...await idleSites(site, sizes),
    ...await requests(site, sizes),
  ];
}

/** Starts a gateway with a build. @param keep Where builds are kept. @default {nowhere} */
async function startKeeping(
  directory: string,
  keep?: string,
): Promise<SubjectProcess> {
  return await startCommand([
    ...["--static-dir", directory, "--immutable", "assets/*"],
    ...["--kv", ":memory:"],
    ...keep === undefined ? [] : ["--keep-builds", keep],
  ]);
}

/** Compares starts with a large build: without a directory, with an empty one, and with one in which it is kept already. */
async function starts(
  { root }: Site,
  { rounds }: BuildCostsSizes,
): Promise<Figure[]> {
  const directory = join(root, "large");
  await writeBuild(directory, FILES);
  const startMs = async (keep?: string) => {
    await using gateway = await startKeeping(directory, keep);
    return gateway.startMs;
  };
  const keep = join(root, "kept-large");
  const measures = {
    without: () => startMs(),
    first: async () => {
      await Deno.remove(keep, { recursive: true }).catch(() => {}); // before the first round
      return await startMs(keep);
    },
    again: () => startMs(keep),
  };
  const times = { without: [], first: [], again: [] } as Record<
    keyof typeof measures,
    number[]
  >;
  for (let round = -1; round < rounds; round++) {
    for (const name of ["without", "first", "again"] as const) {
      const ms = await measures[name]();
      if (round >= 0) times[name].push(ms); // the modules were not in the caches yet
    }
  }
  const perRound = (name: "first" | "again") =>
    times[name].map((ms, round) => ms / times.without[round]!);
  return [
    figure(`start with a build of ${FILES} files`, "ms", times.without),
    figure(
      "… that is kept for the first time / without",
      "",
      perRound("first"),
    ),
    figure("… that is kept already / without", "", perRound("again")),
  ];
}

/** Compares the CPU time of two processes with sites, in the same seconds. */
async function idleSites(
  { root }: Site,
  { rounds, seconds }: BuildCostsSizes,
): Promise<Figure[]> {
  const sites = join(root, "sites");
  for (let index = 0; index < SITES; index++) {
    await writeBuild(join(sites, `site-${index}.example.com`, "dist"), 10);
  }
  const args = ["--sites", sites, "--immutable", "assets/*", "--hot-reload"];
  const memory = ["--kv", ":memory:"];
  await using without = await startCommand([...args, ...memory]);
  await using keeping = await startCommand([
    ...args,
    ...memory,
    ...["--keep-builds", join(root, "kept-sites")],
  ]);
  await delay(Math.min(SETTLED_MS, seconds * 1_000));
  const all = [without, keeping];
  const used: number[][] = [[], []];
  for (let round = 0; round < rounds; round++) {
    const before = await Promise.all(all.map((it) => it.usage()));
    await delay(seconds * 1_000);
    const after = await Promise.all(all.map((it) => it.usage()));
    for (const [index, { cpuUs }] of after.entries()) {
      const us = cpuUs - before[index]!.cpuUs;
      used[index]!.push(us / 1_000 / seconds);
    }
  }
  const [base = [], kept = []] = used;
  const more = kept.map((ms, round) => ms - base[round]!);
  return [
    figure(`${SITES} sites while nothing happens`, "ms of CPU a second", base),
    figure("… more with --keep-builds", "ms of CPU a second", more),
  ];
}

/** Compares requests for a page and a file, in alternating rounds. */
async function requests(
  { root, directory }: Site,
  { rounds, seconds }: BuildCostsSizes,
): Promise<Figure[]> {
  await using without = await startKeeping(directory);
  await using keeping = await startKeeping(directory, join(root, "kept"));
  const perSecond = async ({ url }: SubjectProcess, path: string) =>
    (await load({ url: url + path, connections: 50, seconds: seconds / 10 }))
      .perSecond;
  const ratios: Record<string, number[]> = { page: [], file: [] };
  for (let round = -1; round < 2 * rounds; round++) {
    const subjects = [keeping, without];
    if (round % 2 === 0) subjects.reverse();
    for (const [name, path] of [["page", PAGE_PATH], ["file", ASSET_PATH]]) {
      const rates = new Map<SubjectProcess, number>();
      for (const it of subjects) rates.set(it, await perSecond(it, path!));
      const ratio = rates.get(keeping)! / rates.get(without)!;
      if (round >= 0) ratios[name!]!.push(ratio); // the code was not compiled yet
    }
  }
  return Object.entries(ratios).map(([name, all]) =>
    figure(`${name} with --keep-builds / without`, "", all)
  );
}

/** Writes a page and so many files whose names have a hash. */
async function writeBuild(directory: string, files: number): Promise<void> {
  await Deno.mkdir(join(directory, "assets"), { recursive: true });
  const page = "<!doctype html><title>Page</title>";
  await Deno.writeTextFile(join(directory, "index.html"), page);
  for (let index = 0; index < files; index++) {
    const text = `// ${index}\n`.padEnd(FILE_BYTES, "n++;\n");
    const path = join(directory, "assets", `chunk-${index}.js`);
    await Deno.writeTextFile(path, text);
  }
}
