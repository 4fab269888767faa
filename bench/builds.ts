/**
 * What visitors notice of rolling updates from one build to the next: replicas behind HAProxy without cookies, some of
 * which are killed, and some builds are rolled back. Pages load their HTML and their entry chunk, and later, over the
 * following updates, some of their lazy chunks.
 *
 *     deno task bench builds --builds 20 --replicas 3 --pages 1000
 *
 * Each subject serves the same directories: gateways with `--keep-builds` behind the shipped way of asking another
 * replica for a missing file; gateways without both; and nginx.
 */
import { delay } from "@std/async/delay";
import { join } from "@std/path";
import { findFreePort } from "../tools/free_port.ts";
import { findProgram } from "../tools/find_program.ts";
import { seededRandom } from "../tools/seeded_random.ts";
import { startNginxFiles } from "./_nginx.ts";
import { type Figure, figure, type Report } from "./_report.ts";
import { startCommand } from "./_servers.ts";
import { SubjectProcess } from "./_subject_process.ts";

/** Of the chunks of a build, this many are those of the build before. */
export const BUILDS_SIZES = {
  builds: 20,
  chunks: 20,
  unchanged: 5,
  replicas: 2,
  pages: 1_000,
};

type Sizes = typeof BUILDS_SIZES;

/** How many lazy chunks a page loads. */
const LAZY = 4;
/** Every so many updates, a replica is killed, or the build before comes back. */
const KILL_EVERY = 5;
const ROLLBACK_EVERY = 7;
/** How long a gateway goes on serving after SIGTERM: longer than HAProxy takes to notice. */
const STOP_DELAY_MS = 600;

/** One of the servers that are compared. */
interface Subject {
  readonly name: string;
  /** Whether HAProxy asks another replica for a file that is missing. */
  readonly asksOthers: boolean;
  readonly start: (replica: Place, root: string) => Promise<SubjectProcess>;
}

/** Where a replica has its files, and listens. */
interface Place {
  /** A link to the directory of its build. */
  readonly directory: string;
  readonly port: number;
  readonly healthPort: number;
}

/** What the pages of a subject have noticed. */
interface Noticed {
  pages: number;
  failed: number;
  white: number;
  lazy: number;
  missing: number;
}

const SUBJECTS: readonly Subject[] = [
  {
    name: "gateway with --keep-builds",
    asksOthers: true,
    start: (place, root) =>
      startGateway(place, ["--keep-builds", join(root, "kept")]),
  },
  {
    name: "gateway alone",
    asksOthers: false,
    start: (place) => startGateway(place, []),
  },
  {
    name: "nginx",
    asksOthers: false,
    start: ({ directory, port, healthPort }, root) =>
      startNginxFiles(root, directory, port, healthPort),
  },
];

/** Runs the benchmark. */
export async function updates(sizes: Sizes): Promise<Report> {
  const figures: Figure[] = [];
  for (const subject of SUBJECTS) {
    figures.push(...await measure(subject, sizes));
  }
  const { builds, replicas, pages } = sizes;
  return {
    title: `builds: ${builds} on ${replicas} replicas, ${pages} pages`,
    figures,
  };
}

async function measure(subject: Subject, sizes: Sizes): Promise<Figure[]> {
  const root = await Deno.makeTempDir();
  try {
    await writeBuilds(root, sizes);
    const noticed = await rollAll(subject, root, sizes);
    const { name } = subject;
    const shares = [
      ["pages without HTML", noticed.failed, noticed.pages],
      ["white pages", noticed.white, noticed.pages],
      ["missing lazy chunks", noticed.missing, noticed.lazy],
    ] as const;
    return shares.map(([what, count, all]) =>
      figure(`${name}: ${what}`, `of ${all}`, [count])
    );
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
      await Deno.writeTextFile(join(assets, name), textOf(name));
    }
    const scripts = names.map((name) => `<link href="/assets/${name}">`);
    const page = `<!doctype html><head>${scripts.join("\n")}</head>`;
    await Deno.writeTextFile(join(root, `build-${build}`, "index.html"), page);
  }
}

function textOf(name: string): string {
  return `// ${name}\n`.repeat(40);
}

/** Rolls out all builds while pages load. */
async function rollAll(
  subject: Subject,
  root: string,
  sizes: Sizes,
): Promise<Noticed> {
  await using stack = new AsyncDisposableStack();
  const places: Place[] = [];
  const running: SubjectProcess[] = [];
  stack.defer(async () => {
    for (const replica of running) await replica[Symbol.asyncDispose]();
  });
  for (let replica = 0; replica < sizes.replicas; replica++) {
    const directory = join(root, `replica-${replica}`);
    const [port, healthPort] = [findFreePort(), findFreePort()];
    const place = { directory, port, healthPort };
    await lead(directory, root, 0);
    places.push(place);
    running.push(await subject.start(place, root));
  }
  const proxy = stack.use(await startHaproxy(root, places, subject.asksOthers));
  const random = seededRandom(1);
  const noticed = { pages: 0, failed: 0, white: 0, lazy: 0, missing: 0 };
  const rolling = roll(subject, root, sizes, places, running);
  let isRolling = true;
  const ended = rolling.finally(() => isRolling = false);
  const visits: Promise<void>[] = [];
  const longestMs = 3 * sizes.replicas * STOP_DELAY_MS; // some updates later
  // About as long as the updates take: those at the end see the last one.
  const pauseMs = sizes.builds * sizes.replicas * 1_000 / sizes.pages;
  for (let page = 0; page < sizes.pages && isRolling; page++) {
    visits.push(visit(proxy.url, random, longestMs, noticed));
    await delay(pauseMs * 2 * random());
  }
  await ended;
  await Promise.all(visits);
  return noticed;
}

/** Replaces the replicas one after the other, for each build. */
async function roll(
  subject: Subject,
  root: string,
  { builds, replicas }: Sizes,
  places: readonly Place[],
  running: SubjectProcess[],
): Promise<void> {
  let updates = 0;
  for (let next = 1; next < builds; next++) {
    const isRollback = next % ROLLBACK_EVERY === 0;
    for (const build of isRollback ? [next, next - 1, next] : [next]) {
      for (let replica = 0; replica < replicas; replica++) {
        updates++;
        const place = places[replica]!;
        const old = running[replica]!;
        if (updates % KILL_EVERY === 0) await old.kill();
        else await old[Symbol.asyncDispose]();
        await lead(place.directory, root, build);
        running[replica] = await subject.start(place, root);
        await delay(STOP_DELAY_MS); // until HAProxy has noticed
      }
    }
  }
}

/** Makes the link of a replica lead to a build. */
async function lead(
  directory: string,
  root: string,
  build: number,
): Promise<void> {
  await Deno.symlink(join(root, `build-${build}`), `${directory}.new`);
  await Deno.rename(`${directory}.new`, directory);
}

async function startGateway(
  { directory, port, healthPort }: Place,
  more: readonly string[],
): Promise<SubjectProcess> {
  return await startCommand(
    [
      ...["--static-dir", directory, "--immutable", "assets/*"],
      ...["--health-port", String(healthPort), "--kv", ":memory:"],
      ...[
        "--stop-delay",
        `${STOP_DELAY_MS}ms`,
        "--log-level",
        "error",
        ...more,
      ],
    ],
    port,
    "/",
  );
}

/** A page: its HTML and its entry at once, and some of its other chunks over the following updates. */
async function visit(
  url: string,
  random: () => number,
  longestMs: number,
  noticed: Noticed,
): Promise<void> {
  noticed.pages++;
  const html = await load(`${url}/`);
  if (html === undefined) return void noticed.failed++;
  const names = [...html.matchAll(/"\/assets\/([^"]+)"/g)].map(([, it]) => it!);
  const isThere = async (name: string) =>
    await load(`${url}/assets/${name}`) === textOf(name);
  if (!await isThere(names.at(-1)!)) return void noticed.white++;
  for (let loaded = 0; loaded < LAZY; loaded++) {
    await delay(longestMs * random() ** 2);
    noticed.lazy++;
    const name = names[Math.floor(random() * names.length)]!;
    if (!await isThere(name)) noticed.missing++;
  }
}

/** Returns the text of a response; `undefined` if it is not 200. */
async function load(url: string): Promise<string | undefined> {
  try {
    const response = await fetch(url);
    const text = await response.text();
    return response.ok ? text : undefined;
  } catch {
    return undefined; // the connection broke: for a visitor, it is the same
  }
}

/** Starts HAProxy in front of the replicas: the shipped configuration, without TLS and with faster checks. */
async function startHaproxy(
  root: string,
  places: readonly Place[],
  asksOthers: boolean,
): Promise<SubjectProcess> {
  const program = await findProgram("haproxy", ["/usr/sbin"]);
  if (program === undefined) {
    throw new Error("Cannot find HAProxy: expected Debian's package haproxy");
  }
  const port = findFreePort();
  const servers = (options: (place: Place, index: number) => string) =>
    places.map((place, index) =>
      `  server s${index} 127.0.0.1:${place.port} ${options(place, index)}`
    ).join("\n");
  const config = `
global
  maxconn 4000
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend public
  bind 127.0.0.1:${port}
  ${asksOthers ? "use_backend immutable if { path_beg /assets/ }" : ""}
  default_backend gateway
backend gateway
  option httpchk GET /readyz
  retries 3
  option redispatch 1
${
    servers(({ healthPort }) =>
      `check port ${healthPort} inter 100ms fall 2 rise 1`
    )
  }
backend immutable
  retries ${places.length - 1}
  retry-on conn-failure empty-response 404
  option redispatch 1
${servers((_, index) => `track gateway/s${index}`)}
`;
  const path = join(root, "haproxy.cfg");
  await Deno.writeTextFile(path, config);
  return await SubjectProcess.start({
    program,
    args: ["-db", "-q", "-f", path],
    port,
    readyPath: "/",
    readyStatus: 200,
  });
}
