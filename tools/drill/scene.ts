import type { Fault, Scene } from "./faults.ts";
import { forbidden, namedBy, type Outcome } from "./report.ts";
import { together } from "./users.ts";
import { sleep, until } from "./waiting.ts";
import type { Watch } from "./watch.ts";
import { isHealthy, type World } from "./world.ts";

/** How long it may take until a cause is named, and until nothing is left of a fault. */
const NAMED_SECONDS = 60;
const HEALTHY_SECONDS = 90;

/** What is the same for all faults. */
export interface Course {
  readonly world: World;
  readonly watch: Watch;
  readonly isQuick: boolean;
  readonly signal: AbortSignal;
}

/** Lets a fault take place, and returns its outcome. */
export async function play(fault: Fault, course: Course): Promise<Outcome> {
  const { name } = fault;
  const { world, watch, signal } = course;
  world.users.take();
  world.users.themes = ["dark"];
  const beside: ReturnType<typeof world.users.take>[] = [];
  const troubles: string[] = [];
  const start = watch.signs.length;
  let begun = performance.now();
  const named = () => namedBy(fault, watch.signs.slice(start), begun);

  const scene: Scene = {
    ...world,
    begin() {
      begun = performance.now();
    },
    async named() {
      const what = "the cause to be named";
      const options = { what, seconds: NAMED_SECONDS, signal };
      await until(() => named().length > 0, options)
        .catch(() => signal.throwIfAborted()); // the table says so
    },
    async restart(replica, change = () => {}) {
      await replica.stop();
      await change();
      await replica.start();
      const what = `HAProxy to find ${replica.name} up`;
      await until(() => world.proxy.up.has(replica.name), { what, signal });
    },
    hold: (seconds, quickSeconds) =>
      sleep(course.isQuick ? quickSeconds : seconds, signal),
    async allHave(variable, value) {
      const what = `${variable}=${value} on all streams`;
      await until(() => world.users.allHave(variable, value), { what, signal });
    },
    async forgotten(theme, seconds) {
      const what = `pages without THEME=${theme}`;
      const options = { what, seconds: 2 * seconds, signal };
      const { a, b, users } = world;
      await until(() =>
        users.secondsSince(theme) > seconds &&
        a.secondsRunning > seconds &&
        b.secondsRunning > seconds, options);
    },
    watchBeside(users, ...replicas) {
      const following = replicas.map((replica) => watch.follow(replica));
      return {
        async [Symbol.asyncDispose]() {
          beside.push(users.take());
          await users[Symbol.asyncDispose]();
          for (const each of following) await each[Symbol.asyncDispose]();
        },
      };
    },
  };

  try {
    await fault.run(scene);
  } catch (error) {
    signal.throwIfAborted();
    troubles.push((error as Error).message);
  }
  try {
    const what = "both replicas healthy, and all streams up to date";
    const options = { what, seconds: HEALTHY_SECONDS, signal };
    await until(() => isHealthy(world), options);
  } catch (error) {
    signal.throwIfAborted();
    troubles.push((error as Error).message);
  }
  const noticed = together([world.users.take(), ...beside]);
  troubles.push(...forbidden(fault, noticed));
  return { name, noticed, named: named(), troubles };
}
