import { assertEquals, assertThrows } from "@std/assert";
import { UsageError } from "../../../src/command/options/read_options.ts";
import {
  checkTriggers,
  startTriggers,
} from "../../../src/command/sources/triggers.ts";
import { optionsOf } from "../_options.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import { TempDirectory } from "../../_temp.ts";
import { WatchedClock } from "../../_time.ts";

/** Starts the triggers of a command line and counts the reloads. */
async function start(...args: string[]) {
  const clock = new WatchedClock();
  let reloads = 0;
  const stop = await startTriggers({
    options: optionsOf(args),
    reload: () => reloads++,
    clock,
    log: silentLog,
  });
  return {
    clock,
    stop,
    get reloads() {
      return reloads;
    },
    [Symbol.dispose]: stop,
  };
}

/** Returns the error message for a command line. */
function messageOf(...args: string[]) {
  const check = () => checkTriggers(optionsOf(args));
  return assertThrows(check, UsageError).message;
}

Deno.test("startTriggers() reloads every --poll-interval in poll mode, until it is stopped", async () => {
  using triggers = await start("--hot-reload-mode=poll", "--poll-interval=5s");
  const counted: number[] = [];
  for (const ms of [4_999, 1, 5_000, 9_999, 1]) {
    await triggers.clock.tick(ms);
    counted.push(triggers.reloads);
  }
  triggers.stop();
  await triggers.clock.tick(60_000);
  assertEquals([counted, triggers.reloads, triggers.clock.waiting], [
    [0, 1, 2, 3, 4],
    4,
    0,
  ]);
});

Deno.test("startTriggers() reloads after a change of a file that is read, or of --watch-path", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1", now: "" });
  using triggers = await start(
    "--hot-reload-mode=file_watch",
    "--env-file",
    directory.at("app.env"),
    "--watch-path",
    directory.at("now"),
  );
  const counted: number[] = [];
  for (const name of ["app.env", "now"]) {
    await directory.write(name, "2");
    for (const ms of [500, 100]) {
      await triggers.clock.tick(ms);
      await triggers.clock.waits(2);
    }
    counted.push(triggers.reloads);
  }
  assertEquals(counted, [1, 2]);
});

Deno.test("checkTriggers() accepts what can be watched", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  for (const path of [directory.path, directory.at("app.env")]) {
    checkTriggers(
      optionsOf(["--hot-reload-mode=file_watch", "--watch-path", path]),
    ); // a watcher would be reported as a leak
  }
});

Deno.test("checkTriggers() rejects file_watch without a path", () => {
  assertEquals(
    messageOf("--hot-reload-mode=file_watch"),
    "Cannot watch for changes: expected --watch-path, --env-file, --manifest or --sites with file_watch",
  );
});

Deno.test("checkTriggers() reports the path that cannot be watched, and the reason", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("config");
  assertEquals(
    messageOf("--hot-reload-mode=file_watch", "--watch-path", path),
    `Cannot watch ${path}: No such file or directory (os error 2): stat '${path}'`,
  );
});
