/** A replica that becomes active while it is still starting on a slow store: real processes on one database. */
import { assertEquals } from "@std/assert";
import { delay } from "@std/async/delay";
import { stdFlags } from "../tools/std.ts";
import { TextLineStream } from "../tools/text_lines.ts";
import { startCommand } from "./_command.ts";
import { TempDirectory } from "./_temp.ts";

/**
 * How often the entries are read, and how long two heartbeats may take to appear; a heartbeat is sent every 4 to 5 s.
 */
const POLL_MS = 250;
const TWO_HEARTBEATS_MS = 15_000;

/** Starts a gateway whose store is slow, and returns the lines it prints. */
async function startSlowly(path: string, value: string) {
  const args = ["run", "--quiet", ...await stdFlags(), "-A", "tests/_slow_store_gateway.ts", path, value];
  const options = { args, env: { NO_COLOR: "1" }, stdin: "null", stdout: "piped" } as const;
  const child = new Deno.Command(Deno.execPath(), options).spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream()).getReader();
  return {
    async printed(line: string): Promise<void> {
      for (let read = await reader.read(); !read.done; read = await reader.read()) if (read.value === line) return;
      throw new Error(`The process exited before it printed "${line}"`);
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await reader.cancel();
      await child.status;
    },
  };
}

/** The most often that one process has written its entry within a time. */
async function countHeartbeats(kv: Deno.Kv, withinMs: number): Promise<number> {
  const versions = new Map<string, Set<string>>();
  for (let ms = 0; ms < withinMs; ms += POLL_MS) {
    for await (const { key, versionstamp } of kv.list({ prefix: ["rep", "member"] })) {
      const id = String(key.at(-1));
      versions.set(id, (versions.get(id) ?? new Set()).add(versionstamp));
    }
    const most = Math.max(0, ...versions.values().map(({ size }) => size - 1)); // the first version was there already
    if (most >= 2) return most;
    await delay(POLL_MS);
  }
  return 0;
}

Deno.test("a replica that becomes active while its first load waits for a slow store goes on sending heartbeats", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("kv.sqlite3");
  const flags = ["--hot-reload", "--kv", path];
  {
    await using first = await startCommand(flags, { REP_PUBLIC_A: "old" });
    first.signal("SIGKILL");
    await first.ended();
  }
  await using next = await startCommand(flags, { REP_PUBLIC_A: "new" });
  await using replica = await startSlowly(path, "old"); // its configuration has a rank, the lower one: it is not active
  await replica.printed("joined");
  next.signal("SIGTERM");
  await next.ended();
  await replica.printed("started");
  using kv = await Deno.openKv(path);
  assertEquals(await countHeartbeats(kv, TWO_HEARTBEATS_MS), 2);
});
