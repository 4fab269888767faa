/**
 * The fault drill: two replicas on PostgreSQL behind HAProxy, users who notice everything, and twelve faults. An
 * upgrade from an old commit and back takes place in replicas of its own.
 *
 *     deno task drill                     # about ten minutes
 *     deno task drill --quick             # about six minutes, with shorter waits
 *     deno task drill --only clock,disk   # the faults whose names contain one of these
 *     deno task drill --log drill.log     # keeps what the processes print, and everything that names a cause
 *
 * It prints a table, and exits with 1 if an event was lost, a cause was not named, or an upgrade did harm.
 */
import { parseArgs } from "@std/cli/parse-args";
import { seededRandom } from "../seeded_random.ts";
import { checkoutIn, extract } from "./checkout.ts";
import { type Fault, FAULTS } from "./faults.ts";
import { run } from "./process.ts";
import {
  formatDetails,
  formatTable,
  isFailed,
  type Outcome,
  skip,
} from "./report.ts";
import { type Course, play } from "./scene.ts";
import { sleep } from "./waiting.ts";
import { Watch } from "./watch.ts";
import { type Size, startWorld } from "./world.ts";

/** How long everything runs before the first fault. */
const WARM_UP_SECONDS = 5;

const FULL: Size = {
  streams: 200,
  requestsPerSecond: 50,
  secondsBetweenPulses: 3,
  stopDelay: 8, // as examples/proxies/haproxy.cfg says
  drain: 10,
};
const QUICK: Size = {
  ...FULL,
  secondsBetweenPulses: 2,
  stopDelay: 2,
  drain: 3,
};

/** The exit code of a program that SIGINT has ended. */
const INTERRUPTED = 130;

const encoder = new TextEncoder();

async function print(text: string): Promise<void> {
  await Deno.stdout.write(encoder.encode(`${text}\n`));
}

/** Returns what the results depend on. */
async function circumstances(): Promise<string> {
  const commit = await run("git", ["rev-parse", "--short", "HEAD"]);
  const postgres = await run("psql", ["--version"]).catch(() => undefined);
  const haproxy = await run("/usr/sbin/haproxy", ["-v"]).catch(() => undefined);
  const programs = [
    `Deno ${Deno.version.deno}`,
    postgres?.text.trim(),
    haproxy?.text.split(" ").slice(0, 3).join(" "),
  ];
  const { hardwareConcurrency } = navigator;
  const load = Deno.loadavg()[0]!.toFixed(1);
  const machine = `${hardwareConcurrency} cores, load ${load} at the start`;
  return [`commit ${commit.text.trim()}`, ...programs, machine].join("; ");
}

/** Writes lines with the seconds since the start to a file; without one, nothing. */
function openLog(
  path: string | undefined,
  stack: AsyncDisposableStack,
): (line: string) => void {
  if (path === undefined) return () => {};
  const options = { write: true, create: true, truncate: true };
  const file = stack.use(Deno.openSync(path, options));
  const start = performance.now();
  return (line) => {
    const seconds = (performance.now() - start) / 1_000;
    file.writeSync(encoder.encode(`${seconds.toFixed(2)} ${line}\n`));
  };
}

async function main(signal: AbortSignal): Promise<readonly Outcome[]> {
  const options = parseArgs(Deno.args, {
    boolean: ["quick"],
    string: ["only", "log", "seed"],
    default: { only: "", seed: "1" },
  });
  const only: string[] = options.only.split(",");
  const faults = FAULTS.filter(({ name }) =>
    only.some((part) => name.includes(part))
  );
  await print(`seed ${options.seed}; ${await circumstances()}`);

  await using stack = new AsyncDisposableStack();
  const log = openLog(options.log, stack);
  const settings = {
    log,
    isQuick: options.quick,
    random: seededRandom(Number(options.seed)),
    signal,
  };
  const outcomes: Outcome[] = [];
  for (const [from, group] of Map.groupBy(faults, ({ from }) => from)) {
    outcomes.push(...await playGroup(group, { ...settings, from }));
  }
  await print(`\n${formatTable(outcomes)}`);
  return outcomes;
}

/** What is the same for faults that share a world. */
interface Group extends Pick<Course, "isQuick" | "signal"> {
  readonly from: string | undefined;
  readonly log: (line: string) => void;
  readonly random: () => number;
}

/** Lets faults take place one after the other in one world, which is started if one of them can. */
async function playGroup(
  faults: readonly Fault[],
  group: Group,
): Promise<Outcome[]> {
  await using stack = new AsyncDisposableStack();
  const outcomes: Outcome[] = [];
  let course: Course | undefined;
  for (const fault of faults) {
    const skipped = await fault.skipped?.();
    if (skipped === undefined) course ??= await startCourse(group, stack);
    group.log(`drill: ${fault.name}`);
    await print(`${new Date().toISOString()} ${fault.name}`);
    const outcome = skipped === undefined
      ? await play(fault, course!)
      : skip(fault, skipped);
    await print(formatDetails(outcome));
    outcomes.push(outcome);
  }
  return outcomes;
}

async function startCourse(
  { from, log, random, isQuick, signal }: Group,
  stack: AsyncDisposableStack,
): Promise<Course> {
  const directory = await Deno.makeTempDir({ prefix: "drill-" });
  stack.defer(() => Deno.remove(directory, { recursive: true }));
  const own = await checkoutIn(".");
  const watch = new Watch(log);
  const world = await startWorld({
    size: isQuick ? QUICK : FULL,
    checkouts: from === undefined
      ? [own]
      : [await extract(from, `${directory}/checkout`), own],
    directory,
    watch,
    random,
    signal,
    stack,
  });
  await sleep(WARM_UP_SECONDS, signal);
  return { world, watch, isQuick, signal };
}

if (import.meta.main) {
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(name, () => interrupted.abort());
  }
  try {
    const outcomes = await main(interrupted.signal);
    Deno.exit(outcomes.some(isFailed) ? 1 : 0);
  } catch (error) {
    if (!interrupted.signal.aborted) throw error;
    await print("interrupted: everything that was started has ended");
    Deno.exit(INTERRUPTED);
  }
}
