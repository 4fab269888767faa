import { assertEquals, assertRejects } from "@std/assert";
import {
  type PostgresConnection,
  PostgresPool,
} from "../../../src/store/postgres/connection.ts";

/** Connections that answer when the test lets them. */
class FakeServer {
  readonly answers: (() => void)[] = [];
  opened = 0;
  closed = 0;

  readonly open = (): Promise<PostgresConnection> => {
    this.opened++;
    const query = () =>
      new Promise<[]>((resolve) => this.answers.push(() => resolve([])));
    const connection = { isOpen: true, query, close: () => void this.closed++ };
    return Promise.resolve(connection as unknown as PostgresConnection);
  };
}

async function runReactions(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
}

Deno.test("PostgresPool opens no more connections than its size, and queries wait for a free one", async () => {
  const server = new FakeServer();
  const pool = new PostgresPool(await server.open(), server.open, 3);
  const queries = Array.from(
    { length: 8 },
    () => pool.query({ text: "SELECT 1" } as never),
  );
  for (const inProgress of [3, 3, 2]) {
    await runReactions();
    assertEquals([server.opened, server.answers.length], [3, inProgress]);
    for (const answer of server.answers.splice(0)) answer();
  }
  assertEquals(await Promise.all(queries), Array(8).fill([]));
});

Deno.test("PostgresPool closes every connection, and rejects queries from then on", async () => {
  const server = new FakeServer();
  const pool = new PostgresPool(await server.open(), server.open, 2);
  const queries = [1, 2].map(() => pool.query({ text: "SELECT 1" } as never));
  await runReactions();
  pool.close();
  assertEquals([server.opened, server.closed], [2, 2]);
  await assertRejects(
    () => pool.query({ text: "SELECT 1" } as never),
    Error,
    "closed",
  );
  for (const answer of server.answers) answer();
  await Promise.all(queries);
});
