import { assertEquals, assertRejects } from "@std/assert";
import { EnvSource } from "../../../src/config/files/env_source.ts";
import { requiredPath } from "../../../src/config/files/read_environment.ts";
import type { Environment } from "../../../src/config/variables/tiers.ts";
import { ConfigurationError } from "../../../src/config/variables/snapshot.ts";
import { TempDirectory } from "../../_temp.ts";
import { WatchedClock } from "../../_time.ts";

/** A source at paths, of which the first read is done. */
async function openSource(...paths: string[]) {
  const clock = new WatchedClock();
  const source = new EnvSource(paths.map(requiredPath), clock);
  await source.read();
  return {
    clock,
    /** Reads without any pause. */
    async readAtOnce(): Promise<Environment> {
      const variables = await source.read();
      assertEquals(clock.waiting, 0);
      return variables;
    },
    /** Begins to read, and returns when the source pauses before the next read. */
    async beginRead(): Promise<{ result: Promise<Environment> }> {
      const result = source.read();
      result.catch(() => {}); // the test awaits it later
      await clock.waits();
      return { result };
    },
  };
}

async function issuesOf(
  result: Promise<Environment>,
): Promise<readonly string[]> {
  return (await assertRejects(() => result, ConfigurationError)).issues;
}

Deno.test("EnvSource.read() returns updates and additions at once", async () => {
  await using directory = await TempDirectory.make({
    "app.env": "REP_A=1\nREP_E=",
  });
  const source = await openSource(directory.at("app.env"));
  await directory.write("app.env", "REP_A=2\nREP_B=3\nREP_E=");
  assertEquals(await source.readAtOnce(), {
    REP_A: "2",
    REP_B: "3",
    REP_E: "",
  });
});

Deno.test("EnvSource.read() returns a deletion after it has read it again half a second later", async () => {
  await using directory = await TempDirectory.make({
    "app.env": "REP_A=1\nREP_B=2\n",
  });
  const source = await openSource(directory.at("app.env"));
  await directory.write("app.env", "REP_A=1\n");
  const { result } = await source.beginRead();
  let isSettled = false;
  void result.then(() => isSettled = true);
  await source.clock.tick(499);
  assertEquals(isSettled, false);
  await source.clock.tick(1);
  assertEquals(await result, { REP_A: "1" });
  assertEquals(await source.readAtOnce(), { REP_A: "1" });
});

Deno.test("EnvSource.read() returns no deletion that was a file being written", async () => {
  await using directory = await TempDirectory.make({
    "app.env": "REP_A=1\nREP_B=2\n",
  });
  const source = await openSource(directory.at("app.env"));
  for (
    const partial of ["", "REP_A=1", "REP_A=1\nREP_B=", "REP_A=1\nREP_B=22"]
  ) {
    await directory.write("app.env", partial);
    const { result } = await source.beginRead();
    await directory.write("app.env", "REP_A=1\nREP_B=3\n");
    await source.clock.tick(500);
    assertEquals([partial, await result], [partial, {
      REP_A: "1",
      REP_B: "3",
    }]);
  }
});

Deno.test("EnvSource.read() returns a last line without a newline at once if it had none before", async () => {
  await using directory = await TempDirectory.make({ "app.env": "REP_A=1" });
  const source = await openSource(directory.at("app.env"));
  await directory.write("app.env", "REP_A=2");
  assertEquals(await source.readAtOnce(), { REP_A: "2" });
});

Deno.test("EnvSource.read() rejects a file that is different in each of ten reads", async () => {
  await using directory = await TempDirectory.make({ "app.env": "REP_A=1" });
  const path = directory.at("app.env");
  const source = await openSource(path);
  await directory.write("app.env", "REP_N0=1");
  const { result } = await source.beginRead();
  for (let n = 1; n <= 9; n++) {
    await source.clock.waits();
    await directory.write("app.env", `REP_N${n}=1`);
    await source.clock.tick(500);
  }
  const detail =
    "expected a file that stays the same, but it changed in 10 reads";
  assertEquals(await issuesOf(result), [`"${path}": ${detail}`]);
});

const EMPTIED =
  "expected variables, as before, got none; only a restart removes them all";

/** Texts of a file that has lost its variables: all of it, or their prefixes. */
const WITHOUT_VARIABLES = [
  "",
  "\n \r\n",
  "# none\n",
  "PUBLIC_A=1\n",
  "REP_A=1\n",
  "REP_GATEWAY_PORT=1\n",
];

Deno.test("EnvSource.read() rejects a file that has lost all its variables, however often it is read, beside one that has not", async () => {
  await using directory = await TempDirectory.make({
    "app.env": "REP_PUBLIC_A=1\n",
    "secrets.env": "REP_SERVER_S=1\n",
  });
  const path = directory.at("app.env");
  const source = await openSource(path, directory.at("secrets.env"));
  for (const text of WITHOUT_VARIABLES) {
    await directory.write("app.env", text);
    const { result } = await source.beginRead();
    await source.clock.tick(500);
    assertEquals(await issuesOf(result), [`"${path}": ${EMPTIED}`], text);
  }
  const afterRestart = await openSource(path, directory.at("secrets.env"));
  assertEquals(await afterRestart.readAtOnce(), {
    REP_GATEWAY_PORT: "1",
    REP_SERVER_S: "1",
  });
});

Deno.test("EnvSource.read() rejects a directory that has lost all its variables, whether or not it has other files", async () => {
  await using directory = await TempDirectory.make();
  await Deno.mkdir(directory.at("mount"));
  await directory.write("mount/REP_PUBLIC_A", "1");
  const source = await openSource(directory.at("mount"));
  await Deno.remove(directory.at("mount/REP_PUBLIC_A"));
  for (const other of [undefined, "README"]) {
    if (other !== undefined) await directory.write(`mount/${other}`, "");
    const { result } = await source.beginRead();
    await source.clock.tick(500);
    assertEquals(await issuesOf(result), [
      `"${directory.at("mount")}": ${EMPTIED}`,
    ]);
  }
});

Deno.test("EnvSource.read() accepts a file that is empty from the beginning", async () => {
  await using directory = await TempDirectory.make({ "app.env": "" });
  const source = await openSource(directory.at("app.env"));
  assertEquals(await source.readAtOnce(), {});
  await directory.write("app.env", "REP_A=1");
  assertEquals(await source.readAtOnce(), { REP_A: "1" });
});

Deno.test("EnvSource.read() lets each file override the ones before it, and confirms what any of them has lost", async () => {
  await using directory = await TempDirectory.make({
    "a.env": "REP_A=1\nREP_B=1\n",
    "b.env": "REP_B=2\n#\n",
  });
  const source = await openSource(directory.at("a.env"), directory.at("b.env"));
  assertEquals(await source.readAtOnce(), { REP_A: "1", REP_B: "2" });
  await directory.write("b.env", "#\n");
  const { result } = await source.beginRead();
  await source.clock.tick(500);
  assertEquals(await result, { REP_A: "1", REP_B: "1" });
});

Deno.test("EnvSource.read() returns no deletion while a variable moves from one file to another", async () => {
  await using directory = await TempDirectory.make({
    "a.env": "REP_A=1\nREP_B=1\n",
    "b.env": "#\n",
  });
  const source = await openSource(directory.at("a.env"), directory.at("b.env"));
  await directory.write("a.env", "REP_A=1\n");
  const { result } = await source.beginRead();
  await directory.write("b.env", "REP_B=2\n");
  await source.clock.tick(500);
  await source.clock.waits();
  await source.clock.tick(500);
  assertEquals(await result, { REP_A: "1", REP_B: "2" });
});

Deno.test("EnvSource.read() reports the issues of all files in their order, and changes nothing", async () => {
  await using directory = await TempDirectory.make({
    "a.env": "REP_PUBLIC_A=1\n",
    "b.env": "REP_PUBLIC_B=2\n",
  });
  const [a, b] = [directory.at("a.env"), directory.at("b.env")];
  const source = await openSource(a, b);
  await directory.write("a.env", "REP_A\n");
  await Deno.remove(b);
  const detail = `No such file or directory (os error 2): stat '${b}'`;
  const { result: invalid } = await source.beginRead();
  await source.clock.tick(500);
  assertEquals(await issuesOf(invalid), [
    `"${a}:1": expected NAME=value, a comment or a blank line`,
    `"${b}": ${detail}`,
  ]);
  await directory.write("a.env", "");
  await directory.write("b.env", "REP_PUBLIC_B=2\n");
  const { result } = await source.beginRead();
  await source.clock.tick(500);
  assertEquals((await issuesOf(result)).map((issue) => issue.split(": ")[0]), [
    `"${a}"`,
  ]);
});

Deno.test("EnvSource.read() does not believe a mistake that was a line being written", async () => {
  await using directory = await TempDirectory.make({ "app.env": "REP_A=1\n" });
  const source = await openSource(directory.at("app.env"));
  await directory.write("app.env", "REP_A=1\nREP_");
  const { result } = await source.beginRead();
  await directory.write("app.env", "REP_A=1\nREP_B=2\n");
  await source.clock.tick(500);
  assertEquals(await result, { REP_A: "1", REP_B: "2" });
});

Deno.test("EnvSource.read() reads a file that need not exist if it exists", async () => {
  await using directory = await TempDirectory.make({ "a.env": "REP_A=1\n" });
  const path = directory.at("local.env");
  const clock = new WatchedClock();
  const source = new EnvSource([
    requiredPath(directory.at("a.env")),
    { path, required: false },
  ], clock);
  assertEquals(await source.read(), { REP_A: "1" });
  await directory.write("local.env", "REP_A=2\n");
  assertEquals(await source.read(), { REP_A: "2" });
  assertEquals(source.placeOf("REP_A"), { path, line: 1 });
  await Deno.remove(path);
  const result = source.read();
  await clock.waits();
  await clock.tick(500);
  assertEquals(await result, { REP_A: "1" });
});
