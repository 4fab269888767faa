/**
 * A gateway whose store takes several seconds to list events while it starts. Run by `rollout_heartbeat_test.ts` with
 * the path of the database and a value; prints a line when it has joined the rollout and one when it has started, and
 * runs until it is killed.
 */
import { createGateway, createLog, kvStore, type Store } from "../main.ts";

const [path = "", value = ""] = Deno.args;
const inner = kvStore(await Deno.openKv(path));
const encoder = new TextEncoder();
const print = (line: string) => Deno.stdout.writeSync(encoder.encode(`${line}\n`));

/** Longer than the 4 s until the next heartbeat, shorter than the store's timeout of 5 s. */
const SLOW_MS = 4_700;
let isSlow = true;

const store: Store = {
  maxChecks: inner.maxChecks,
  get: (key) => inner.get(key),
  getMany: (keys) => inner.getMany(keys),
  async list(prefix, options) {
    if (isSlow && prefix[0] === "event") {
      print("joined");
      await new Promise((resolve) => setTimeout(resolve, SLOW_MS));
      isSlow = false;
    }
    return await inner.list(prefix, options);
  },
  commit: (checks, writes) => inner.commit(checks, writes),
  watch: (key, hint) => inner.watch(key, hint),
  close: () => inner.close(),
};

addEventListener("unhandledrejection", (event) => event.preventDefault()); // as the command does
await createGateway({
  variables: { REP_PUBLIC_A: value },
  hotReload: true,
  store,
  log: createLog(),
  random: () => 0.99,
});
print("started");
setInterval(() => {}, 60_000);
