/**
 * What visitors notice of rolling updates from one build to the next: two and three replicas behind HAProxy without
 * cookies. Some are killed, at an update or half way through one, and come back; some builds are rolled back. Pages load
 * their HTML and their entry chunk, and some lazy chunks over the following updates. They are told of new builds, and
 * then reload at once.
 *
 *     deno task bench builds --builds 20 --replicas 3 --pages 1000
 *
 * All subjects serve the same directories, at the same time: gateways with `--keep-builds` behind the shipped way of
 * asking another replica for a missing file; gateways without both; and nginx. Then `build_costs.ts` measures what it
 * costs.
 */
import { delay } from "@std/async/delay";
import { join } from "@std/path";
import { findFreePort } from "../tools/free_port.ts";
import { seededRandom } from "../tools/seeded_random.ts";
import { BuildPages, chunkText, pageText } from "./_build_pages.ts";
import { buildCosts } from "./build_costs.ts";
import { type Haproxy, type ProxiedPorts, startHaproxy } from "./_haproxy.ts";
import { startNginxFiles } from "./_nginx.ts";
import { type Figure, figure, type Report } from "./_report.ts";
import { startCommand } from "./_servers.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** Of the chunks of a build, this many are those of the build before. There are 2 replicas, and then more, up to this many. */
export const BUILDS_SIZES = {
  builds: 20,
  chunks: 20,
  unchanged: 5,
  replicas: 3,
  pages: 1_000,
  /** Those of the costs; without rounds, they are not measured. */
  rounds: 5,
  seconds: 20,
};

type Sizes = typeof BUILDS_SIZES;

/** Every so many updates of a replica, it is killed. */
const KILL_EVERY = 5;
/** After every so many rollouts, all replicas restart. */
const RESTART_EVERY = 6;
/** After every so many, nothing happens for so long, and open pages are told. */
const PAUSE_EVERY = 3;
const PAUSE_MS = 10_000;
/** Half way through every so many rollouts, a replica is killed that was not replaced yet, and comes back as it was. */
const CRASH_EVERY = 4;
/** Every so many builds, the build before comes back, and then the build again. */
const ROLLBACK_EVERY = 7;
/** How long a gateway goes on serving after SIGTERM: longer than HAProxy takes to notice. */
const STOP_DELAY_MS = 600;
/** How long HAProxy may take to notice that a replica is up. */
const NOTICED_MS = 20_000;
/** About as long as it takes to replace a replica. */
const UPDATE_MS = 2_000;
/** A page is open for the updates of so many builds, at most. */
const OPEN_FOR = 8;

/** One of the servers that are compared. */
interface Subject {
  readonly name: string;
  /** Whether HAProxy asks another replica for a file that is missing. */
  readonly asksOthers: boolean;
  readonly start: (replica: Place, root: string) => Promise<SubjectProcess>;
}

/** Where a replica has its files, and listens. */
interface Place extends ProxiedPorts {
  /** A link to the directory of its build. */
  readonly directory: string;
}

const SUBJECTS: readonly Subject[] = [
  {
    name: "gateway with --keep-builds",
    asksOthers: true,
    start: (place, root) =>
      startGateway(place, root, ["--keep-builds", join(root, "kept")]),
  },
  {
    name: "gateway alone",
    asksOthers: false,
    start: (place, root) => startGateway(place, root, []),
  },
  {
    name: "nginx",
    asksOthers: false,
    start: ({ directory, port, healthPort }, root) =>
      startNginxFiles(root, directory, port, healthPort),
  },
];

/** Runs the benchmark. */
export async function builds(sizes: Sizes): Promise<Report> {
  const figures: Figure[] = [];
  if (sizes.builds > 0) {
    const fleets: Promise<Figure[]>[] = [];
    for (let replicas = 2; replicas <= sizes.replicas; replicas++) {
      fleets.push(measure({ ...sizes, replicas }));
    }
    figures.push(...(await Promise.all(fleets)).flat());
  }
  figures.push(...await buildCosts(sizes));
  const title = `builds: ${sizes.builds}, ${sizes.pages} pages`;
  return { title, figures };
}

/** Measures all subjects at the same time. */
async function measure(sizes: Sizes): Promise<Figure[]> {
  const root = await Deno.makeTempDir();
  try {
    await writeBuilds(root, sizes);
    const all = await Promise.all(
      SUBJECTS.map((subject) => rollAll(subject, root, sizes)),
    );
    return all.flat();
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

/** Writes `root/build-N/`, each with a page that lists its chunks. */
async function writeBuilds(root: string, sizes: Sizes): Promise<void> {
  for (let build = 0; build < sizes.builds; build++) {
    const assets = join(root, `build-${build}`, "assets");
    await Deno.mkdir(assets, { recursive: true });
    const names = Array.from({ length: sizes.chunks }, (_, index) => {
      const version = index < sizes.unchanged ? "all" : build;
      return `chunk-${index}-${version}.js`;
    });
    for (const name of names) {
      await Deno.writeTextFile(join(assets, name), chunkText(name));
    }
    const page = pageText(build, names);
    await Deno.writeTextFile(join(root, `build-${build}`, "index.html"), page);
  }
}

/** Rolls out all builds while pages load. */
async function rollAll(
  subject: Subject,
  builds: string,
  sizes: Sizes,
): Promise<Figure[]> {
  const root = join(builds, subject.name);
  await Deno.mkdir(root);
  await using stack = new AsyncDisposableStack();
  const fleet = stack.use(new Fleet(subject, root));
  await fleet.start(sizes.replicas);
  const proxy = stack.use(
    await startHaproxy(root, fleet.places, subject.asksOthers),
  );
  fleet.proxy = proxy;
  const random = seededRandom(1);
  const pages = new BuildPages(proxy.url, random);
  const updateMs = sizes.replicas * UPDATE_MS;
  const visits: Promise<void>[] = [];
  const visitLater = async () => {
    await delay(updateMs * random());
    await pages.visit(OPEN_FOR * updateMs * random());
  };
  await roll(fleet, sizes, (build, share) => {
    pages.beginRollout(build);
    const count = Math.ceil(sizes.pages * share);
    for (let page = 0; page < count; page++) visits.push(visitLater());
  });
  await pages.close();
  await Promise.all(visits);
  const { loads, failed, white, lazy, missing } = pages.noticed;
  const all = [
    ["pages without HTML", failed, loads],
    ["white pages", white, loads],
    ["missing lazy chunks", missing, lazy],
    ...pages.notices,
  ] as const;
  return all.map(([what, count, of]) =>
    figure(`${sizes.replicas} × ${subject.name}: ${what}`, `of ${of}`, [count])
  );
}

/**
 * Replaces the replicas one after the other, for each build.
 *
 * @param onBegin Called with each build whose rollout begins, and which share of all rollouts this is.
 */
async function roll(
  fleet: Fleet,
  { builds, replicas }: Sizes,
  onBegin: (build: number, share: number) => void,
): Promise<void> {
  const rollouts = rolloutsOf(builds);
  let updates = 0;
  for (const [index, build] of rollouts.entries()) {
    onBegin(build, 1 / rollouts.length);
    if (index === 0) continue; // the replicas have started with it
    for (let replica = 0; replica < replicas; replica++) {
      const isHalfWay = replica === 1;
      if (isHalfWay && index % CRASH_EVERY === 0) {
        await fleet.restart(replicas - 1, { isCrash: true });
      }
      const isCrash = ++updates % KILL_EVERY === 0;
      await fleet.restart(replica, { build, isCrash });
    }
    if (index % PAUSE_EVERY === 0) await delay(PAUSE_MS);
    if (index % RESTART_EVERY > 0) continue;
    for (let replica = 0; replica < replicas; replica++) {
      await fleet.restart(replica);
    }
  }
}

/** Returns the builds in the order in which they are rolled out: some of them again. */
function rolloutsOf(builds: number): number[] {
  const all = Array.from({ length: builds }, (_, build) => build);
  return all.flatMap((build) =>
    build > 0 && build % ROLLBACK_EVERY === 0
      ? [build, build - 1, build]
      : [build]
  );
}

/** Replicas of a subject. */
class Fleet implements AsyncDisposable {
  readonly places: Place[] = [];
  /** What is in front of them. */
  proxy: Haproxy | undefined;
  readonly #running: SubjectProcess[] = [];
  readonly #subject: Subject;
  readonly #root: string;

  constructor(subject: Subject, root: string) {
    this.#subject = subject;
    this.#root = root;
  }

  async start(replicas: number): Promise<void> {
    for (let replica = 0; replica < replicas; replica++) {
      const directory = join(this.#root, `replica-${replica}`);
      const [port, healthPort] = [findFreePort(), findFreePort()];
      const place = { directory, port, healthPort };
      this.places.push(place);
      await this.#lead(directory, 0);
      this.#running.push(await this.#subject.start(place, this.#root));
    }
  }

  /** Ends a replica and starts it again, and waits until the proxy uses it. @param options.build The build that it then has. @default {the one that it has} */
  async restart(
    replica: number,
    { build, isCrash = false }: { build?: number; isCrash?: boolean } = {},
  ): Promise<void> {
    const place = this.places[replica]!;
    const old = this.#running[replica]!;
    if (isCrash) await old.kill();
    else await old[Symbol.asyncDispose]();
    if (build !== undefined) await this.#lead(place.directory, build);
    this.#running[replica] = await this.#subject.start(place, this.#root);
    await delay(STOP_DELAY_MS); // the proxy may not have noticed yet that it was down
    const endsAt = performance.now() + NOTICED_MS;
    while (await this.proxy?.isUp(replica) === false) {
      if (performance.now() > endsAt) {
        throw new Error(`Cannot wait longer: expected replica ${replica} up`);
      }
      await delay(50);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const replica of this.#running) await replica[Symbol.asyncDispose]();
  }

  /** Makes the link of a replica lead to a build. */
  async #lead(directory: string, build: number): Promise<void> {
    await Deno.symlink(`../build-${build}`, `${directory}.new`);
    await Deno.rename(`${directory}.new`, directory);
  }
}

async function startGateway(
  { directory, port, healthPort }: Place,
  root: string,
  more: readonly string[],
): Promise<SubjectProcess> {
  return await startCommand(
    [
      ...["--static-dir", directory, "--immutable", "assets/*"],
      ...["--health-port", String(healthPort), "--hot-reload"],
      ...["--kv", join(root, "store.sqlite")],
      ...["--stop-delay", `${STOP_DELAY_MS}ms`, "--drain", "300ms"],
      ...["--log-level", "error"],
      ...more,
    ],
    port,
    "/",
  );
}
