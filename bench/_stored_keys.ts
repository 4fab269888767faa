import type { Row } from "./_row.ts";

/** The clients of one load: consecutive numbers, which are the last three bytes of their addresses in 10.0.0.0/8. */
export interface LoadedClients {
  readonly firstClient: number;
  readonly requests: number;
}

const CLIENTS = 1 << 24;

/**
 * Returns which share of the requests of a load was counted in the store. The gateway counts in memory when the store
 * is behind; a rate that is reached in this way says nothing about the store.
 */
export async function storedKeysRow(
  kv: Deno.Kv,
  loads: readonly LoadedClients[],
): Promise<Row> {
  const stored = await Array.fromAsync(
    kv.list({ prefix: ["rep", "rate"] }),
    ({ key }) => clientOf(String(key.at(-1))),
  );
  const shares = loads.map(({ firstClient, requests }) => {
    // A client's number may be larger than its address can express; requests that were in flight at the end are not
    // counted.
    const own = stored.filter((client) =>
      (client - firstClient + CLIENTS) % CLIENTS <= MAX_CLIENTS_PER_LOAD
    );
    return Math.min(100, own.length / requests * 100);
  });
  return {
    name: "stored_keys",
    work: "session keys that the KV file has counted, of the last load",
    unit: "%",
    rounds: { gateway: shares },
  };
}

/** No two loads of a row have a client in common. `_distinct_clients.lua` expects as many. */
export const MAX_CLIENTS_PER_LOAD = 400_000;

function clientOf(address: string): number {
  const [, a = 0, b = 0, c = 0] = address.split(".").map(Number);
  return a * 65_536 + b * 256 + c;
}
