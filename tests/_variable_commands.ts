import { assertEquals, assertMatch } from "@std/assert";
import { commandArgs, runCommand } from "./_command.ts";
import { within } from "./_time.ts";
import { TextLineStream } from "../tools/text_lines.ts";

/** What a process needs to open a store. */
export interface StoreAccess {
  /** The value of `--kv`. */
  readonly kv: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Checks `set`, `unset`, `list`, `history` and `watch` on an empty store, as processes of their own. */
export async function checkVariableCommands(
  access: StoreAccess,
): Promise<void> {
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await within(
      runCommand([...args, "--kv", access.kv], { ...access.env }),
    );
    return { code, stdout, stderr };
  };
  const writes = async (...args: string[]): Promise<Write[]> =>
    JSON.parse((await run(...args, "--json")).stdout);

  await using watch = await startWatch(access);
  const [first, second] = await writes("set", "A=1", "B=\u{1f600} \\");
  assertEquals([first?.name, second?.name, second?.value], [
    "A",
    "B",
    "\u{1f600} \\",
  ]);
  assertEquals(toValues(await writes("list")), [["A", "1"], [
    "B",
    "\u{1f600} \\",
  ]]);

  assertEquals(
    toValues(await writes("set", "A=2", "--if-id", String(first?.id))),
    [["A", "2"]],
  );
  const conflict = await run("set", "A=0", "--if-id", String(first?.id));
  assertEquals([conflict.code, conflict.stdout], [1, ""]);
  assertMatch(
    conflict.stderr,
    /^Cannot write REP_PUBLIC_A: expected its id to be \d+, but its id is \d+/,
  );

  assertEquals(toValues(await writes("unset", "B", "C")), [["B", null]]);
  assertEquals(toValues(await writes("set", "A=3")), [["A", "3"]]);
  const expected = [
    ["A", "1"],
    ["B", "\u{1f600} \\"],
    ["A", "2"],
    ["B", null],
    ["A", "3"],
  ];
  assertEquals(toValues(await writes("history")), expected.toReversed());
  assertEquals(
    toValues(await writes("history", "--limit", "2")),
    expected.toReversed().slice(0, 2),
  );
  assertEquals(toValues(await within(watch.take(expected.length))), expected);
}

interface Write {
  readonly name: string;
  readonly value: string | null;
  readonly id: number;
}

function toValues(writes: readonly Write[]): (string | null)[][] {
  return writes.map(({ name, value }) => [name, value]);
}

/** Starts `watch`, and waits until it watches. */
async function startWatch({ kv, env }: StoreAccess) {
  const args = commandArgs(["watch", "--json", "--kv", kv]);
  const options = {
    args,
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  } as const;
  const child = new Deno.Command(Deno.execPath(), options).spawn();
  const lines = linesOf(child.stdout);
  const messages = linesOf(child.stderr);
  assertEquals(
    (await within(messages.next())).value,
    "Watching the variables in the store",
  );
  return {
    async take(count: number): Promise<Write[]> {
      const writes: Write[] = [];
      while (writes.length < count) {
        writes.push(JSON.parse(String((await lines.next()).value)));
      }
      return writes;
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGINT");
      await Promise.all([child.status, lines.return?.(), messages.return?.()]);
    },
  };
}

function linesOf(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
): AsyncIterableIterator<string> {
  return stream.pipeThrough(new TextDecoderStream()).pipeThrough(
    new TextLineStream(),
  )[Symbol.asyncIterator]();
}
