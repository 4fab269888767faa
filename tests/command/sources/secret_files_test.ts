import { assertEquals, assertRejects } from "@std/assert";
import {
  readStart,
  type Start,
} from "../../../src/command/options/read_start.ts";
import { UsageError } from "../../../src/command/options/read_options.ts";
import {
  loadKvToken,
  readSecret,
} from "../../../src/command/sources/secret_files.ts";
import { ConfigurationError } from "../../../src/core/config/variables/snapshot.ts";
import { TempDirectory } from "../../_temp.ts";

function readToken(environment: Record<string, string>) {
  return readSecret("TOKEN", (name) => environment[name], "a token");
}

Deno.test("readSecret() returns the value, or the text of the file without white space around it", async () => {
  await using directory = await TempDirectory.make({ token: " abc\n" });
  assertEquals(await readToken({}), undefined);
  assertEquals(
    await readToken({ TOKEN: "", TOKEN_FILE: "" }),
    undefined,
  );
  assertEquals(await readToken({ TOKEN: "abc" }), "abc");
  assertEquals(
    await readToken({ TOKEN_FILE: directory.at("token") }),
    "abc",
  );
});

Deno.test("readSecret() rejects both at once, a missing file and an empty one, without the secret", async () => {
  await using directory = await TempDirectory.make({ empty: " \n" });
  const both = await assertRejects(
    () => readToken({ TOKEN: "abc", TOKEN_FILE: "x" }),
    UsageError,
  );
  assertEquals(
    both.message,
    "Cannot use TOKEN and TOKEN_FILE: expected one of them",
  );
  const empty = await assertRejects(
    () => readToken({ TOKEN_FILE: directory.at("empty") }),
    UsageError,
  );
  assertEquals(
    empty.message,
    `Cannot read TOKEN_FILE "${
      directory.at("empty")
    }": expected a token, got an empty file`,
  );
  const missing = await assertRejects(
    () => readToken({ TOKEN_FILE: directory.at("x") }),
    ConfigurationError,
  );
  assertEquals(
    missing.message.startsWith(
      `Cannot read TOKEN_FILE "${directory.at("x")}": `,
    ),
    true,
  );
  assertEquals(missing.message.endsWith("; expected a token"), true);
});

Deno.test("readStart() reads the master key from REP_GATEWAY_MASTER_KEY_FILE", async () => {
  const key = new Uint8Array(32).fill(7);
  await using directory = await TempDirectory.make({
    good: `${key.toBase64()}\n`,
    bad: "c2VjcmV0",
  });
  const read = (name: string) =>
    readStart([], { REP_GATEWAY_MASTER_KEY_FILE: directory.at(name) });
  const command = await read("good") as Start;
  assertEquals([command.masterKey, command.warnings], [key, []]);
  const { message } = await assertRejects(() => read("bad"), UsageError);
  assertEquals([
    message.startsWith("Cannot use the master key: "),
    message.includes("c2Vj"),
  ], [
    true,
    false,
  ]);
});

Deno.test(
  "loadKvToken() does nothing without permission to read the environment",
  { permissions: {} },
  async () => {
    await loadKvToken();
  },
);
