import { assertEquals, assertRejects } from "@std/assert";
import {
  loadEnvFile,
  readEnvironment,
} from "../../../src/config/files/read_environment.ts";
import type { Environment } from "../../../src/config/variables/tiers.ts";
import { ConfigurationError } from "../../../src/config/variables/snapshot.ts";
import {
  denoFileSystem,
  type FileSystem,
} from "../../../src/values/local_files.ts";
import { TempDirectory } from "../../_temp.ts";

Deno.test("readEnvironment() returns the REP_ variables only", () => {
  Deno.env.set("REP_PUBLIC_ENVIRONMENT_TEST", "1");
  Deno.env.set("ENVIRONMENT_TEST", "2");
  Deno.env.set("XREP_ENVIRONMENT_TEST", "3");
  try {
    const environment = readEnvironment();
    assertEquals(environment.REP_PUBLIC_ENVIRONMENT_TEST, "1");
    assertEquals(
      Object.keys(environment).filter((name) => !name.startsWith("REP_")),
      [],
    );
  } finally {
    Deno.env.delete("REP_PUBLIC_ENVIRONMENT_TEST");
    Deno.env.delete("ENVIRONMENT_TEST");
    Deno.env.delete("XREP_ENVIRONMENT_TEST");
  }
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
function filesWith(beforeRead: () => unknown) {
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

Deno.test("loadEnvFile() rejects a mounted ConfigMap that is replaced again and again", async () => {
  await using directory = await TempDirectory.make();
  let version = 0;
  const mount = () => directory.mount(String(++version), { REP_A: "1" });
  await mount();
  await assertRejects(
    () => loadEnvFile(directory.path, filesWith(mount)),
    Error,
    "expected a directory that stays the same, but ..data changed in 10 reads",
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
  const read = (name: string) => loadEnvFile(directory.at(name));
  assertEquals([
    await read("empty.env"),
    await read("blank.env"),
    await read("none.env"),
  ], [
    {
      variables: {},
      lines: new Map(),
      isTerminated: false,
    },
    {
      variables: {},
      lines: new Map(),
      isTerminated: true,
    },
    {
      variables: {},
      lines: new Map(),
      isTerminated: false,
    },
  ]);
  assertEquals([await read("empty"), await read(".")], [
    {
      variables: {},
      lines: new Map(),
      isTerminated: true,
    },
    {
      variables: {},
      lines: new Map(),
      isTerminated: true,
    },
  ]);
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
    `"${path}:3": expected each name once, but REP_A is already on line 1`,
  ]);
});

/** Bytes that are not UTF-8, and the line that is reported. */
const INVALID_UTF8: Record<
  string,
  readonly [bytes: readonly number[], line: number]
> = {
  "a byte of Latin-1": [[
    ...ascii("REP_A=1\nREP_B="),
    0xe4,
    ...ascii("\nREP_C=3\n"),
  ], 2],
  "a byte in the line after a blank one": [[...ascii("\n"), 0xff], 2],
  "a character that is cut off": [[
    ...ascii("REP_A=1\n\nREP_B="),
    0xf0,
    0x9f,
    0x98,
  ], 3],
  "a surrogate": [[...ascii("REP_A="), 0xed, 0xa0, 0x80], 1],
  "a byte after U+FFFD": [[...ascii("REP_A=\uFFFD\nREP_B="), 0xff, 0x0a], 2],
  "a U+FFFD that is cut off after a blank line": [
    [...ascii("\n"), 0xef, 0xbf],
    2,
  ],
  "UTF-16": [[0xff, 0xfe, 0x52, 0, 0x45, 0], 1],
};

function ascii(text: string) {
  return new TextEncoder().encode(text);
}

for (const [what, [bytes, line]] of Object.entries(INVALID_UTF8)) {
  Deno.test(`loadEnvFile() rejects ${what}, in a file and in a directory`, async () => {
    await using directory = await TempDirectory.make();
    const path = directory.at("REP_A");
    await Deno.writeFile(path, new Uint8Array(bytes));
    for (const read of [path, directory.path]) {
      const { issues } = await assertRejects(
        () => loadEnvFile(read),
        ConfigurationError,
      );
      assertEquals(issues, [`"${path}:${line}": expected UTF-8`]);
    }
  });
}

for (
  const [text, line] of [
    ["REP_A=1\nREP_B=CANARY\0\nREP_C=3", 2],
    ["\0CANARY=1", 1],
    ["\n\n\n\0CANARY=1", 4],
    ["# \0CANARY", 1],
    ["\0", 1],
  ] as const
) {
  Deno.test(`loadEnvFile() rejects the NUL byte in ${JSON.stringify(text)}, in a file and in a directory`, async () => {
    await using directory = await TempDirectory.make({ REP_A: text });
    const path = directory.at("REP_A");
    for (const read of [path, directory.path]) {
      const { issues } = await assertRejects(
        () => loadEnvFile(read),
        ConfigurationError,
      );
      assertEquals(issues, [
        `"${path}:${line}": expected text, got a NUL byte`,
      ]);
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
