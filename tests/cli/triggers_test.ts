import { assertEquals, assertThrows } from "@std/assert";
import { silentLog } from "../../src/log.ts";
import { readCommandLine, readSettings, UsageError } from "../../src/cli/read_options.ts";
import { triggerReloads } from "../../src/cli/triggers.ts";
import { TempDirectory } from "../_temp.ts";
import { WatchedClock } from "../_watched_clock.ts";

/** Triggers as a command line asks for them, and how often they went off; they end with their test. */
function trigger(...args: string[]) {
  const clock = new WatchedClock();
  const settings = readSettings({ flags: readCommandLine(args).flags, environment: {}, manifest: {} });
  let reloads = 0;
  const stop = triggerReloads(settings, () => reloads++, { clock, log: silentLog });
  return {
    clock,
    stop,
    get reloads() {
      return reloads;
    },
    [Symbol.dispose]: stop,
  };
}

function refusalOf(...args: string[]): string {
  return assertThrows(() => trigger(...args), UsageError).message;
}

Deno.test("triggerReloads() leaves it to signals by default", async () => {
  using triggers = trigger();
  assertEquals(triggers.clock.waiting, 0);
  await triggers.clock.tick(86_400_000);
  assertEquals(triggers.reloads, 0);
});

Deno.test("triggerReloads() in poll mode reloads every --poll-interval until it is ended", async () => {
  using triggers = trigger("--hot-reload-mode=poll", "--poll-interval=5s");
  const counted: number[] = [];
  for (const ms of [4_999, 1, 5_000, 9_999, 1]) {
    await triggers.clock.tick(ms);
    counted.push(triggers.reloads);
  }
  triggers.stop();
  await triggers.clock.tick(60_000);
  assertEquals([counted, triggers.reloads, triggers.clock.waiting], [[0, 1, 2, 3, 4], 4, 0]);
});

Deno.test("triggerReloads() in file_watch mode reloads when a file was changed", async () => {
  await using directory = await TempDirectory.make({ "app.env": "1" });
  using triggers = trigger("--hot-reload-mode=file_watch", "--env-file", directory.at("app.env"));
  await directory.write("app.env", "2");
  await triggers.clock.waits(2); // polling is one of them
  await triggers.clock.tick(100);
  assertEquals(triggers.reloads, 1);
});

Deno.test("triggerReloads() in file_watch mode looks every --poll-interval as well, until it is ended", async () => {
  await using directory = await TempDirectory.make({ ".rep.yaml": "1" });
  using triggers = trigger(
    "--hot-reload-mode=file_watch",
    "--manifest",
    directory.at(".rep.yaml"),
    "--poll-interval=5s",
  );
  await triggers.clock.tick(5_000);
  assertEquals(triggers.reloads, 1);
  triggers.stop();
  await triggers.clock.tick(60_000);
  assertEquals([triggers.reloads, triggers.clock.waiting], [1, 0]);
});

Deno.test("triggerReloads() in file_watch mode asks for something to watch", () => {
  assertEquals(
    refusalOf("--hot-reload-mode=file_watch"),
    "Cannot watch for changes: expected --watch-path, --env-file or --manifest with file_watch",
  );
});

Deno.test("triggerReloads() says which path it cannot watch, and why", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("config");
  assertEquals(
    refusalOf("--hot-reload-mode=file_watch", "--watch-path", path),
    `Cannot watch ${path}: No such file or directory (os error 2): stat '${path}'`,
  );
});

Deno.test("triggerReloads() says which permission is missing, and asks nobody", { permissions: {} }, () => {
  assertEquals(
    refusalOf("--hot-reload-mode=file_watch", "--watch-path=/config"),
    "Cannot watch /config: expected --allow-read=/config",
  );
});
