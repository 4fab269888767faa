import { assertEquals, assertMatch } from "@std/assert";
import { runCommand } from "./_command.ts";

/** What a process needs to open a store. */
export interface StoreAccess {
  /** The value of `--kv`. */
  readonly kv: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Checks `set`, `unset`, `list`, `history` and `undo` on an empty store, as processes of their own. */
export async function checkVariableCommands(
  { kv, env }: StoreAccess,
): Promise<void> {
  const run = (...args: string[]) =>
    runCommand([...args, "--kv", kv], { ...env });
  const writes = async (...args: string[]): Promise<Write[]> =>
    JSON.parse((await run(...args, "--json")).stdout);

  const odd = "\u{1f600} \\";
  const [first, second] = await writes("set", "A=1", `B=${odd}`);
  assertEquals([first?.name, second?.name, second?.value], ["A", "B", odd]);
  assertEquals(toValues(await writes("list")), [["A", "1"], ["B", odd]]);

  const ifFirst = ["--if-id", String(first?.id)];
  assertEquals(toValues(await writes("set", "A=2", ...ifFirst)), [["A", "2"]]);
  const conflict = await run("set", "A=0", ...ifFirst);
  assertEquals([conflict.code, conflict.stdout], [1, ""]);
  assertMatch(
    conflict.stderr,
    /^Cannot write REP_PUBLIC_A: expected its id to be \d+, but its id is \d+/,
  );

  assertEquals(toValues(await writes("unset", "B", "C")), [["B", null]]);
  assertEquals(toValues(await writes("set", "A=3")), [["A", "3"]]);
  const expected = [
    ["A", "1"],
    ["B", odd],
    ["A", "2"],
    ["B", null],
    ["A", "3"],
  ];
  const newestFirst = expected.toReversed();
  assertEquals(toValues(await writes("history")), newestFirst);
  assertEquals(
    toValues(await writes("history", "--limit", "2")),
    newestFirst.slice(0, 2),
  );
  const [undone] = await writes("undo");
  assertEquals(toValues([undone!]), [["A", "2"]]);
  const again = await run("undo"); // it was the undo of somebody, perhaps
  assertEquals([again.code, again.stdout], [1, ""]);
  const redone = await writes("undo", String(undone?.id));
  assertEquals(toValues(redone), [["A", "3"]]);
  assertEquals((await run("undo", String(first?.id))).code, 1);

  await run("set", "A=4", "--app=forgotten");
  assertEquals(
    (await run("forget", "forgotten")).stderr,
    "Forgotten: forgotten\n",
  );
  assertEquals(await writes("history", "--app=forgotten"), []);
  assertEquals(toValues(await writes("list")).length, 1);
}

interface Write {
  readonly name: string;
  readonly value: string | null;
  readonly id: number;
}

function toValues(writes: readonly Write[]): (string | null)[][] {
  return writes.map(({ name, value }) => [name, value]);
}
