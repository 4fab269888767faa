import { assertEquals, assertRejects } from "@std/assert";
import { EnvSource } from "../../src/files/env_source.ts";
import { requiredPath } from "../../src/files/read_environment.ts";
import { ConfigurationError } from "../../src/core/config/variables/snapshot.ts";
import { TempDirectory } from "../_temp.ts";
import { WatchedClock } from "../_time.ts";

/** A source of files in a directory, of which the first read is done. */
async function setUp(files: Record<string, string>, ...names: string[]) {
  const directory = await TempDirectory.make(files);
  const clock = new WatchedClock();
  const paths = (names.length > 0 ? names : Object.keys(files)).map((name) =>
    directory.at(name)
  );
  const source = new EnvSource(paths.map(requiredPath), clock);
  await source.read();
  /** Begins to read, and returns when the source pauses before the next read. */
  async function beginRead() {
    const result = source.read();
    result.catch(() => {}); // the test awaits it later
    await clock.waits();
    return { result };
  }
  return {
    ...{ directory, paths, clock, beginRead },
    write: (text: string, name = names[0] ?? "app.env") =>
      directory.write(name, text),
    /** Reads without any pause. */
    async readAtOnce() {
      const variables = await source.read();
      assertEquals(clock.waiting, 0);
      return variables;
    },
    /** Reads, and again after half a second, before which something may happen. */
    async readTwice(meanwhile: () => unknown = () => {}) {
      const { result } = await beginRead();
      await meanwhile();
      await clock.tick(500);
      return await result;
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

async function issuesOf(read: () => Promise<unknown>) {
  return (await assertRejects(read, ConfigurationError)).issues;
}

Deno.test("EnvSource.read() returns updates and additions at once", async () => {
  await using source = await setUp({ "app.env": "REP_A=1\nREP_E=" });
  await source.write("REP_A=2\nREP_B=3\nREP_E=");
  const variables = { REP_A: "2", REP_B: "3", REP_E: "" };
  assertEquals(await source.readAtOnce(), variables);
});

Deno.test("EnvSource.read() returns a deletion after it has read it again half a second later", async () => {
  await using source = await setUp({ "app.env": "REP_A=1\nREP_B=2\n" });
  await source.write("REP_A=1\n");
  const { result } = await source.beginRead();
  let isSettled = false;
  void result.then(() => isSettled = true);
  await source.clock.tick(499);
  assertEquals(isSettled, false);
  await source.clock.tick(1);
  assertEquals(await result, { REP_A: "1" });
  assertEquals(await source.readAtOnce(), { REP_A: "1" });
});

for (
  const partial of [
    "",
    "REP_A=1",
    "REP_A=1\nREP_B=",
    "REP_A=1\nREP_",
    "REP_A=1\nREP_B=22",
  ]
) {
  Deno.test(`EnvSource.read() does not believe ${JSON.stringify(partial)}, which was a file being written`, async () => {
    await using source = await setUp({ "app.env": "REP_A=1\nREP_B=2\n" });
    await source.write(partial);
    const rest = () => source.write("REP_A=1\nREP_B=3\n");
    assertEquals(await source.readTwice(rest), { REP_A: "1", REP_B: "3" });
  });
}

Deno.test("EnvSource.read() returns a last line without a newline at once if it had none before", async () => {
  await using source = await setUp({ "app.env": "REP_A=1" });
  await source.write("REP_A=2");
  assertEquals(await source.readAtOnce(), { REP_A: "2" });
});

const EMPTIED =
  "expected variables, as before, got none; to remove them all on purpose, restart";

/** Texts of a file that has lost its variables: all of it, or their prefixes. */
const WITHOUT_VARIABLES = [
  "",
  "\n \r\n",
  "# none\n",
  "PUBLIC_A=1\n",
  "REP_GATEWAY_PORT=1\n",
  "REP_PUBLC_A=1\n",
];

Deno.test("EnvSource.read() rejects a file that has lost all its variables, however often it is read, beside one that has not", async () => {
  await using source = await setUp({
    "app.env": "REP_PUBLIC_A=1\n",
    "secrets.env": "REP_SERVER_S=1\n",
  });
  for (const text of WITHOUT_VARIABLES) {
    await source.write(text);
    const issues = await issuesOf(() => source.readTwice());
    assertEquals(issues, [`"${source.paths[0]}": ${EMPTIED}`], text);
  }
  await source.write("REP_GATEWAY_PORT=1\n");
  const paths = source.paths.map(requiredPath);
  const afterRestart = new EnvSource(paths, source.clock);
  const variables = { REP_GATEWAY_PORT: "1", REP_SERVER_S: "1" };
  assertEquals(await afterRestart.read(), variables);
});

Deno.test("EnvSource.read() rejects a directory that has lost all its variables, whether or not it has other files", async () => {
  await using source = await setUp({ REP_PUBLIC_A: "1" }, ".");
  await Deno.remove(source.directory.at("REP_PUBLIC_A"));
  const issues = [`"${source.paths[0]}": ${EMPTIED}`];
  assertEquals(await issuesOf(() => source.readTwice()), issues);
  await source.write("", "README");
  assertEquals(await issuesOf(() => source.readTwice()), issues);
});

Deno.test("EnvSource.read() accepts a file that is empty from the beginning", async () => {
  await using source = await setUp({ "app.env": "" });
  assertEquals(await source.readAtOnce(), {});
  await source.write("REP_A=1");
  assertEquals(await source.readAtOnce(), { REP_A: "1" });
});

Deno.test("EnvSource.read() lets each file override the ones before it, and confirms what any of them has lost", async () => {
  await using source = await setUp({
    "a.env": "REP_A=1\nREP_B=1\n",
    "b.env": "REP_B=2\n#\n",
  });
  assertEquals(await source.readAtOnce(), { REP_A: "1", REP_B: "2" });
  await source.write("#\n", "b.env");
  assertEquals(await source.readTwice(), { REP_A: "1", REP_B: "1" });
});

Deno.test("EnvSource.read() returns no deletion while a variable moves from one file to another", async () => {
  await using source = await setUp({
    "a.env": "REP_A=1\nREP_B=1\n",
    "b.env": "#\n",
  });
  await source.write("REP_A=1\n", "a.env");
  const move = () => source.write("REP_B=2\n", "b.env");
  assertEquals(await source.readTwice(move), { REP_A: "1", REP_B: "2" });
});

Deno.test("EnvSource.read() reports the issues of all files in their order, and changes nothing", async () => {
  await using source = await setUp({
    "a.env": "REP_PUBLIC_A=1\n",
    "b.env": "REP_PUBLIC_B=2\n",
  });
  const [a, b = ""] = source.paths;
  await source.write("REP_A\n", "a.env");
  await Deno.remove(b);
  assertEquals(await issuesOf(() => source.readTwice()), [
    `"${a}:1": expected NAME=value, a comment or a blank line`,
    `"${b}": No such file or directory (os error 2): stat '${b}'`,
  ]);
  await source.write("", "a.env");
  await source.write("REP_PUBLIC_B=2\n", "b.env");
  const issues = await issuesOf(() => source.readTwice());
  assertEquals(issues, [`"${a}": ${EMPTIED}`]);
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
