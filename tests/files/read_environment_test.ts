import { assertEquals, assertRejects } from "@std/assert";
import {
  loadEnvFile,
  readEnvironment,
} from "../../src/files/read_environment.ts";
import { ConfigurationError } from "../../src/core/config/variables/snapshot.ts";
import {
  denoFileSystem,
  type FileSystem,
} from "../../src/files/local_files.ts";
import { withEnvironment } from "../_environment.ts";
import { TempDirectory } from "../_temp.ts";

Deno.test("readEnvironment() returns the REP_ variables only", async () => {
  const variables = { REP_PUBLIC_A: "1", A: "2", XREP_A: "3" };
  const environment = await withEnvironment(variables, readEnvironment);
  assertEquals(environment.REP_PUBLIC_A, "1");
  const others = Object.keys(environment).filter((name) =>
    !name.startsWith("REP_")
  );
  assertEquals(others, []);
});

Deno.test("readEnvironment() returns nothing without --allow-env", {
  permissions: { env: false },
}, () => {
  assertEquals(readEnvironment(), {});
});

Deno.test(
  "readEnvironment() returns nothing if --allow-env is limited to some variables",
  {
    permissions: { env: ["REP_PUBLIC_A"] },
  },
  () => assertEquals(readEnvironment(), {}),
);

async function variablesAt(path: string) {
  return (await loadEnvFile(path)).variables;
}

Deno.test("loadEnvFile() reads a file", async () => {
  await using directory = await TempDirectory.make({
    "app.env": "REP_PUBLIC_A=1\nOTHER=2\n",
  });
  assertEquals(await variablesAt(directory.at("app.env")), {
    REP_PUBLIC_A: "1",
  });
});

Deno.test("loadEnvFile() reads a mounted ConfigMap, and its next version", async () => {
  await using directory = await TempDirectory.make();
  await directory.mount("2026_11_21", {
    REP_PUBLIC_A: "1",
    REP_SERVER_B: "2\n",
    "other.txt": "x",
  });
  assertEquals(await variablesAt(directory.path), {
    REP_PUBLIC_A: "1",
    REP_SERVER_B: "2",
  });
  await directory.mount("2026_11_22", { REP_PUBLIC_A: "3", REP_SERVER_B: "4" });
  assertEquals(await variablesAt(directory.path), {
    REP_PUBLIC_A: "3",
    REP_SERVER_B: "4",
  });
});

/** Calls back before each file is read. */
function filesWith(beforeRead: () => unknown): FileSystem {
  return {
    ...denoFileSystem,
    async readFile(path) {
      await beforeRead();
      return await denoFileSystem.readFile(path);
    },
  };
}

Deno.test("loadEnvFile() reads a mounted ConfigMap again that is replaced meanwhile", async () => {
  await using directory = await TempDirectory.make();
  await directory.mount("1", { REP_PUBLIC_A: "a1", REP_PUBLIC_B: "b1" });
  let reads = 0;
  const files = filesWith(async () => {
    if (++reads !== 2) return;
    await directory.mount("2", { REP_PUBLIC_A: "a2", REP_PUBLIC_B: "b2" });
    // Kubernetes removes the previous version, so that the read may fail as well.
    await Deno.remove(directory.at("..1"), { recursive: true });
  });
  const { variables } = await loadEnvFile(directory.path, files);
  assertEquals(variables, { REP_PUBLIC_A: "a2", REP_PUBLIC_B: "b2" });
});

Deno.test("loadEnvFile() sorts the variables of a directory, which some file systems list in another order each time", async () => {
  await using directory = await TempDirectory.make({ REP_A: "1", REP_B: "2" });
  const list = (names: string[]) =>
    loadEnvFile(directory.path, {
      ...denoFileSystem,
      names: () => Promise.resolve(names),
    });
  for (const names of [["REP_A", "REP_B"], ["REP_B", "REP_A"]]) {
    const { variables } = await list(names);
    assertEquals(Object.keys(variables), ["REP_A", "REP_B"]);
  }
});

Deno.test("loadEnvFile() rejects a file of more than 4 MiB, even if it was smaller a moment ago", async () => {
  await using directory = await TempDirectory.make({ "app.env": "REP_A=1\n" });
  const path = directory.at("app.env");
  const grow = () => Deno.truncate(path, 4 * 1024 * 1024 + 1);
  await assertRejects(
    () => loadEnvFile(path, filesWith(grow)),
    RangeError,
    `expected at most 4194304 bytes in '${path}'`,
  );
});

Deno.test("loadEnvFile() removes exactly one newline from the end of each file in a directory", async () => {
  await using directory = await TempDirectory.make({
    REP_A: "1\n",
    REP_B: "1\r\n",
    REP_C: "1\n\n",
    REP_D: " 1 ",
    REP_E: "",
    REP_F: '"1" # all of it\na=b',
  });
  assertEquals(await variablesAt(directory.path), {
    REP_A: "1",
    REP_B: "1",
    REP_C: "1\n",
    REP_D: " 1 ",
    REP_E: "",
    REP_F: '"1" # all of it\na=b',
  });
});

Deno.test("loadEnvFile() ignores files without the prefix", async () => {
  await using directory = await TempDirectory.make({
    ".REP_A": "1",
    ".env": "REP_B=1",
    "rep_c": "1",
    "REP_D": "1",
  });
  assertEquals(await variablesAt(directory.path), { REP_D: "1" });
});

Deno.test("loadEnvFile() reads a file or a directory that is empty, or has no variables", async () => {
  await using directory = await TempDirectory.make({
    "empty.env": "",
    "blank.env": "\uFEFF \r\n\t\n",
    "none.env": "#",
  });
  await Deno.mkdir(directory.at("empty"));
  const isTerminated = {
    "empty.env": false,
    "blank.env": true,
    "none.env": false,
    "empty": true,
    ".": true,
  };
  for (const [name, expected] of Object.entries(isTerminated)) {
    const { variables, lines, isTerminated } = await loadEnvFile(
      directory.at(name),
    );
    assertEquals([name, variables, lines.size, isTerminated], [
      ...[name, {}, 0, expected],
    ]);
  }
});

Deno.test("loadEnvFile() reads a file with a byte order mark", async () => {
  await using directory = await TempDirectory.make({
    "app.env": "\uFEFFREP_A=1\nREP_B=2",
    "REP_C": "\uFEFF3",
  });
  assertEquals(await variablesAt(directory.at("app.env")), {
    REP_A: "1",
    REP_B: "2",
  });
  assertEquals(await variablesAt(directory.path), { REP_C: "3" });
});

Deno.test("loadEnvFile() names file and line of every issue, and no value", async () => {
  await using directory = await TempDirectory.make({
    "app.env": "REP_A=1\nCANARY\nREP_A=CANARY",
  });
  const path = directory.at("app.env");
  const { issues } = await assertRejects(
    () => loadEnvFile(path),
    ConfigurationError,
  );
  assertEquals(issues, [
    `"${path}:2": expected NAME=value, a comment or a blank line`,
    `"${path}:3": expected each name once, but this one is already on line 1`,
  ]);
});

/** Bytes of Latin-1, and the line that is named. */
const INVALID: [what: string, bytes: string, line: number][] = [
  ["a byte of Latin-1", "REP_A=1\nREP_B=\xe4\nREP_C=3\n", 2],
  ["a byte in the line after a blank one", "\n\xff", 2],
  ["a character that is cut off", "REP_A=1\n\nREP_B=\xf0\x9f\x98", 3],
  ["a surrogate", "REP_A=\xed\xa0\x80", 1],
  ["a byte after U+FFFD, which looks like one", "\xef\xbf\xbd\n\xff\n", 1],
  ["a U+FFFD that is cut off after a blank line", "\n\xef\xbf", 2],
  ["UTF-16", "\xff\xfeR\0E\0", 1],
  ["NUL in a value", "REP_A=1\nREP_B=CANARY\0\nREP_C=3", 2],
  ["NUL in a name", "\n\n\n\0CANARY=1", 4],
  ["NUL in a comment", "# \0CANARY", 1],
  ["NUL alone", "\0", 1],
];

for (const [what, text, line] of INVALID) {
  Deno.test(`loadEnvFile() rejects ${what}, in a file and in a directory`, async () => {
    await using directory = await TempDirectory.make();
    const path = directory.at("REP_A");
    const bytes = Uint8Array.from(text, (char) => char.charCodeAt(0));
    await Deno.writeFile(path, bytes);
    for (const read of [path, directory.path]) {
      const { issues } = await assertRejects(
        () => loadEnvFile(read),
        ConfigurationError,
      );
      const issue = `"${path}:${line}": expected UTF-8 without NUL bytes`;
      assertEquals(issues, [issue]);
    }
  });
}

Deno.test("loadEnvFile() fails for a path that does not exist", async () => {
  await using directory = await TempDirectory.make();
  await assertRejects(
    () => loadEnvFile(directory.at("app.env")),
    Deno.errors.NotFound,
  );
});

Deno.test("loadEnvFile() fails for a dangling symlink in a directory", async () => {
  await using directory = await TempDirectory.make();
  await Deno.symlink("nowhere", directory.at("REP_A"));
  await assertRejects(() => loadEnvFile(directory.path), Deno.errors.NotFound);
});
