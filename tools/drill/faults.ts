import { Addresses } from "./addresses.ts";
import { rolledBuilds } from "./builds.ts";
import { cannotExtract } from "./checkout.ts";
import type { Replica } from "./replica.ts";
import { cannotMount, fill, withDisk } from "./disk.ts";
import type { Noticed } from "./users.ts";
import { VARIABLES, type World } from "./world.ts";

const LIGHT = { ...VARIABLES, REP_PUBLIC_THEME: "light" };

/**
 * A replica deletes the entry of a dead process at most 75 s after it has found it: its configuration is then
 * forgotten.
 */
const FORGOTTEN_SECONDS = 80;

/** The oldest commit whose stores every later one opens: 112aa7d. */
const OLDEST = "112aa7d5050db50fefba749bd911eada81fb2a7c";

const DAY_MS = 86_400_000;

/** What a fault works with. */
export interface Scene extends World {
  /** Counts the seconds from now on, instead of from the beginning. */
  begin(): void;
  /** Waits until something has named the cause; after a while it counts as not named. */
  named(): Promise<void>;
  /** Stops a replica, changes something, starts it again, and waits until HAProxy uses it. */
  restart(replica: Replica, change?: () => Promise<void> | void): Promise<void>;
  /** Waits for some seconds, or for fewer in a quick drill. */
  hold(seconds: number, quickSeconds: number): Promise<void>;
  /** Waits until all users have received a value, or `null`: that the variable was removed. */
  allHave(name: string, value: string | null): Promise<void>;
  /** Waits until no page has had a value of THEME, and no replica was started, for so many seconds. */
  forgotten(theme: string, seconds: number): Promise<void>;
  /** Counts what the users of other processes notice as well, until it is disposed of. */
  watchBeside(users: OtherUsers, ...replicas: Replica[]): AsyncDisposable;
}

/** Users of processes that HAProxy does not know. */
export interface OtherUsers extends AsyncDisposable {
  /** Returns what was noticed since the last call. */
  take(): Noticed;
}

/** Something that goes wrong, or is done. */
export interface Fault {
  /** As in the table of docs/reliability.md. */
  readonly name: string;
  /** What names the cause: the beginnings of signs. */
  readonly names: readonly string[];
  /** The beginnings of failed requests that show that something is wrong with the gateway. @default {none} */
  readonly never?: readonly string[];
  /** The commit with which the replicas begin. Faults with one have a world of their own. @default {the checkout} */
  readonly from?: string;
  /** Returns why it cannot take place here. */
  readonly skipped?: () => Promise<string | undefined>;
  /** Causes the fault, waits for its effects, and undoes it. */
  readonly run: (scene: Scene) => Promise<void>;
}

async function invalidValue({ a, b, named, hold }: Scene): Promise<void> {
  const invalid = { ...VARIABLES, REP_PUBLIC_LIMIT: "ten" };
  await a.writeVariables(invalid);
  await b.writeVariables(invalid);
  await named();
  await hold(15, 5);
  await a.writeVariables(VARIABLES);
  await b.writeVariables(VARIABLES);
}

async function rollout(scene: Scene): Promise<void> {
  const { a, b, users, set, begin, named, allHave, restart } = scene;
  users.themes = ["dark", "light"];
  await restart(a, async () => {
    await a.setVariables(LIGHT);
    begin();
  });
  await set("BANNER", "rollout");
  await restart(b, () => b.setVariables(LIGHT));
  await allHave("THEME", "light");
  await named();
  await restart(b, () => b.setVariables(VARIABLES));
  await set("BANNER", "rollback");
  await restart(a, () => a.setVariables(VARIABLES));
  await allHave("THEME", "dark");
  await allHave("BANNER", "rollback");
  users.themes = ["dark"];
}

async function stoppedStore({ store, named, hold }: Scene): Promise<void> {
  await store.kill();
  await named();
  await hold(30, 10);
  await store.start();
}

async function killedReplica({ a, named, hold }: Scene): Promise<void> {
  await a.kill();
  await named();
  await hold(20, 8);
  await a.start();
}

async function endedCertificate(scene: Scene): Promise<void> {
  const { certificates, at, beside, begin, named, hold } = scene;
  const files = { cert: at("own.crt"), key: at("own.key") };
  const renew = async (end: number) => {
    const { cert, key } = await certificates.sign(new Date(end));
    await Deno.writeTextFile(files.cert, cert);
    await Deno.writeTextFile(files.key, key);
  };
  const end = Date.now() + 10_000;
  await renew(end);
  await using replica = beside({
    name: "tls",
    kv: ":memory:",
    variables: VARIABLES,
    flags: ["--tls-cert", files.cert, "--tls-key", files.key],
  });
  await replica.start();
  const authority = await certificates.authority();
  await using addresses = await Addresses.open(replica.port, authority);
  await using _users = scene.watchBeside(
    scene.usersOf(replica, {
      url: addresses.url,
      client: () => addresses.newClient(),
    }),
    replica,
  );
  const seconds = (end - Date.now()) / 1_000;
  await hold(seconds, seconds);
  begin();
  await named();
  await hold(10, 5);
  await renew(end + DAY_MS);
  replica.signal("SIGHUP");
  await hold(10, 6);
}

async function rollingStop(scene: Scene): Promise<void> {
  const { a, b, size, users, named, restart } = scene;
  for (const replica of [a, b]) {
    const uploads = Array.from(
      { length: 8 },
      () => users.upload(size.stopDelay + 2),
    );
    await restart(replica);
    await Promise.all(uploads);
  }
  await named();
}

async function fullDisk(scene: Scene): Promise<void> {
  const { at, beside, begin, named, hold } = scene;
  const disk = at("disk");
  await Deno.mkdir(disk);
  await using replica = beside({
    name: "sqlite",
    kv: `${disk}/kv.sqlite3`,
    variables: VARIABLES,
    wrapper: withDisk(disk),
  });
  await replica.start();
  await using _users = scene.watchBeside(
    scene.usersOf(replica, { url: replica.url }),
    replica,
  );
  await hold(5, 4);
  begin();
  const filling = await fill(replica.pid, disk);
  await named();
  await hold(15, 5);
  await Deno.remove(filling);
  await hold(8, 5);
}

async function removedVariables(scene: Scene): Promise<void> {
  const { a, b, named, hold, allHave } = scene;
  await a.writeVariables({});
  await b.writeVariables({});
  await named();
  await hold(10, 4);
  const { REP_PUBLIC_LIMIT: _removed, ...fewer } = VARIABLES;
  await a.writeVariables(fewer);
  await b.writeVariables(fewer);
  await allHave("LIMIT", null);
  await a.writeVariables(VARIABLES);
  await b.writeVariables(VARIABLES);
  await allHave("LIMIT", "10");
}

async function movedClock({ b, named, hold }: Scene): Promise<void> {
  await b.moveClock(1);
  await named();
  await hold(10, 3);
  await b.moveClock(-1);
  await hold(15, 6);
  await b.moveClock(0);
}

async function oldConfiguration(scene: Scene): Promise<void> {
  const { beside, begin, named, hold, allHave, forgotten } = scene;
  await forgotten("light", FORGOTTEN_SECONDS);
  await using old = beside({ name: "old", variables: LIGHT });
  begin();
  await old.start();
  await named();
  await hold(10, 4);
  await old.stop();
  await allHave("THEME", "dark");
}

async function secondApp({ beside, named, hold }: Scene): Promise<void> {
  const variables = { REP_PUBLIC_SHOP_NAME: "Shop" };
  await using other = beside({ name: "shop", variables });
  await other.start();
  await named();
  await hold(15, 6);
  await other.stop();
}

async function wrongMasterKey(scene: Scene): Promise<void> {
  const { b, begin, named, hold, restart } = scene;
  const { env } = b;
  await restart(b, () => {
    const key = btoa("w".repeat(32));
    b.env = { ...env, REP_GATEWAY_MASTER_KEY: key };
    begin();
  });
  await named();
  await hold(15, 5);
  await restart(b, () => {
    b.env = env;
  });
}

/**
 * The replicas go to this checkout one after the other, and then back. After each step, the env files and the store
 * change, and a page of the oldest commit, which is still open, asks for its key.
 */
async function upgrade(scene: Scene): Promise<void> {
  const { a, b, users, checkouts, set, named, hold, allHave, restart } = scene;
  const { keyPath } = users;
  let limit = 10;
  for (const checkout of [...checkouts].reverse()) {
    for (const replica of [a, b]) {
      await restart(replica, () => {
        replica.checkout = checkout;
      });
      limit++;
      for (const each of [a, b]) {
        await each.setVariables({ ...VARIABLES, REP_PUBLIC_LIMIT: `${limit}` });
      }
      await set("BANNER", `${limit}`);
      await allHave("LIMIT", `${limit}`);
      await allHave("BANNER", `${limit}`);
      await users.requestKey(keyPath);
      await hold(10, 4);
    }
  }
  await named();
}

/** All faults, in the order in which they take place: the old configuration is long gone when it comes back. */
export const FAULTS: readonly Fault[] = [
  {
    name: "invalid value in the env file",
    names: [
      "log rep.config.rejected",
      "health config_rejected",
      "metric rep_config_last_reload_success 0",
    ],
    run: invalidValue,
  },
  {
    name: "rollout, then rollback, a `set` in each",
    names: [
      "log rep.rollout.superseded",
      "log rep.rollout.active",
      "metric rep_rollout_active",
    ],
    run: rollout,
  },
  {
    name: "store stopped for 30 s",
    names: [
      "log rep.store.down",
      "health store_unavailable",
      "metric rep_store_up 0",
    ],
    run: stoppedStore,
  },
  {
    name: "`kill -9` of a replica",
    names: ["health no answer", "proxy Server gateway/gateway is DOWN"],
    run: killedReplica,
  },
  {
    name: "certificate expired, then renewed",
    names: ["log rep.tls.expiring", "health certificate_ended"],
    run: endedCertificate,
  },
  {
    name: "rolling SIGTERM during uploads",
    names: [
      "log rep.stopping",
      "health stopping",
      "proxy Server gateway/gateway is DOWN",
    ],
    run: rollingStop,
  },
  {
    name: "full disk",
    names: [
      "log rep.store.down",
      "health store_unavailable",
      "metric rep_store_up 0",
    ],
    skipped: cannotMount,
    run: fullDisk,
  },
  {
    name: "variables removed",
    names: [
      "log rep.config.rejected",
      "health config_rejected",
      "metric rep_config_last_reload_success 0",
    ],
    run: removedVariables,
  },
  {
    name: "clock ±1 h",
    names: ["log rep.rollout.clock_skew", "health clock_skew"],
    run: movedClock,
  },
  {
    name: "old configuration started",
    names: ["log rep.rollout.rollback"],
    run: oldConfiguration,
  },
  {
    name: "second app on the store",
    names: [
      "log rep.rollout.apart",
      "log rep.rollout.other_app",
      "health other_app",
      'metric rep_streams_rejected_total{reason="stands_apart"}',
    ],
    run: secondApp,
  },
  {
    name: "wrong master key",
    names: ["log rep.rollout.other_master_key", "health other_master_key"],
    run: wrongMasterKey,
  },
  {
    name: "rolling update of builds, `kill -9` half way",
    names: [
      "log rep.stopping",
      "health stopping",
      "health no answer",
      "proxy Server gateway/gateway is DOWN",
    ],
    never: ["build page", "entry", "lazy chunk"],
    run: rolledBuilds,
  },
  {
    name: "upgrade from 112aa7d, and back",
    names: ["log rep.rollout.active", "metric rep_rollout_active"],
    never: ["key 4", "key with", "page with"],
    from: OLDEST,
    skipped: () => cannotExtract(OLDEST),
    run: upgrade,
  },
];
