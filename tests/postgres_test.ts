import { assertEquals, assertLess } from "@std/assert";
import { delay } from "@std/async/delay";
import { findPostgres } from "../tools/postgres.ts";
import {
  at,
  PROPAGATION_MS,
  RECOVERY_MS,
  requestKeys,
  setUp,
  statusOf,
  testMultipleGateways,
} from "./_multi_gateway.ts";
import {
  MISSING,
  postgres,
  type PostgresPair,
  startPair,
} from "./_postgres.ts";
import { Client, has, idsOf, valuesOf } from "./_stream_client.ts";

/** How long streaming replication takes on one machine, with room to spare. */
const REPLICATION_MS = 1_000;

const bin = await findPostgres();
const engine = bin === undefined ? undefined : postgres(bin);

testMultipleGateways(engine, MISSING);

const PREFIX = engine === undefined
  ? `without ${MISSING}`
  : "on a PostgreSQL server";

Deno.test({
  name:
    `${PREFIX}: a failover to a replica that lags behind ends no stream; ids rise, and lost changes are published again`,
  ignore: engine === undefined,
  async fn() {
    if (engine === undefined || bin === undefined) return;
    let pair: PostgresPair | undefined;
    const start = async () => pair = await startPair(bin);
    await using setup = await setUp({ ...engine, start }, 2);
    const [first, second] = [at(setup.gateways, 0), at(setup.gateways, 1)];
    await using client = await Client.open(first);
    await using other = await Client.open(second);
    const clients = [client, other];
    await setup.publish("replicated", first);
    await Promise.all(
      clients.map((client) => client.until(has("replicated"), PROPAGATION_MS)),
    );
    assertEquals(await requestKeys(first, 3), [200, 200, 200]);
    await delay(REPLICATION_MS);

    pair?.stopReplication();
    await setup.publish("lost", first);
    await Promise.all(
      clients.map((client) => client.until(has("lost"), PROPAGATION_MS)),
    );
    const lostId = Math.max(...idsOf(client));
    assertEquals(await requestKeys(first, 3), [200, 200, 200]);
    await pair?.kill();
    await pair?.promote();
    // Not until rep.store.up: the promotion may be complete before any operation has failed.
    const isAgain = ({ messages }: typeof client) =>
      messages.some(({ id, data }) => id > lostId && data.value === "lost");
    await Promise.all(
      clients.map((client) => client.until(isAgain, RECOVERY_MS)),
    );

    // The gateways still count what they have issued themselves; see docs/stores.md.
    assertEquals(
      (await requestKeys(first, 5)).filter((status) => status === 200).length,
      4,
    );
    await setup.publish("after", second);
    await Promise.all(
      clients.map((client) => client.until(has("after"), PROPAGATION_MS)),
    );
    assertEquals(
      clients.map(valuesOf),
      Array(2).fill(["replicated", "lost", "lost", "after"]),
    );
    assertEquals(
      clients.map(idsOf),
      Array(2).fill(idsOf(client).toSorted((a, b) => a - b)),
    );
    assertLess(lostId, Math.min(...idsOf(client).slice(2)));
    assertEquals(clients.map(({ isOpen }) => isOpen), [true, true]);
    assertEquals(await Promise.all(setup.gateways.map(statusOf)), [
      "healthy",
      "healthy",
    ]);
  },
});
