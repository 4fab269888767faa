/**
 * The rows of many variables: a start that publishes all of them, and a reload that changes all of them.
 *
 *     deno task bench variables --variables 10000 --rounds 3
 *
 * The store is a new Deno KV file in every round. The floor is to commit as many entries as the events and the public
 * state have values, 500 at once, to such a file.
 */
import { kvStore } from "../src/store/kv.ts";
import { createKvFile } from "./_kv_file.ts";
import { alternate, mapSubjects, type Row } from "./_row.ts";
import { ChangingVariables } from "./_variables.ts";

/** The sizes of the benchmark. */
export const VARIABLES_SIZES = { variables: 10_000, rounds: 3 };

/** The mutations of one commit: Deno KV allows 1,000, and 80 KiB of keys. */
const COMMIT_SIZE = 500;

/** Runs the benchmark. */
export async function variableRows(
  { variables, rounds }: typeof VARIABLES_SIZES,
): Promise<Row[]> {
  const costs = await alternate(rounds, {
    gateway: () => measureGateway(variables),
    floor: async () => {
      const ms = await measureCommits(2 * variables);
      return { startMs: ms, reloadMs: ms };
    },
  });
  const count = variables.toLocaleString("en");
  return [
    {
      name: "start_many",
      work: `start with ${count} variables`,
      unit: "ms",
      rounds: mapSubjects(costs, (all) => all.map(({ startMs }) => startMs)),
    },
    {
      name: "reload_many",
      work: `reload that changes ${count} variables`,
      unit: "ms",
      rounds: mapSubjects(costs, (all) => all.map(({ reloadMs }) => reloadMs)),
    },
  ];
}

async function measureGateway(
  variables: number,
): Promise<{ startMs: number; reloadMs: number }> {
  await using file = await createKvFile();
  using kv = await file.open();
  const startedAt = performance.now();
  await using changing = await ChangingVariables.start(kvStore(kv), variables);
  const reloadedAt = performance.now();
  await changing.change();
  return {
    startMs: reloadedAt - startedAt,
    reloadMs: performance.now() - reloadedAt,
  };
}

async function measureCommits(entries: number): Promise<number> {
  await using file = await createKvFile();
  using kv = await file.open();
  const startedAt = performance.now();
  for (let next = 0; next < entries;) {
    const commit = kv.atomic();
    for (
      const end = Math.min(entries, next + COMMIT_SIZE);
      next < end;
      next++
    ) {
      commit.set(["bare", next], `value ${next}`);
    }
    await commit.commit();
  }
  return performance.now() - startedAt;
}
