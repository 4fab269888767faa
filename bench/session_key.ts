/**
 * How many session keys one process issues per second, and what a crowd behind one address costs the store.
 *
 *     deno task bench session_key --keys 1000 --concurrent 32 --rounds 5
 *
 * Each key is for another client, on a Deno KV file. The floors in the same run: a bare HKDF and a bare commit for each
 * key, and the same with the read and the check that processes need to count together. Then 200 concurrent requests of
 * one client: how many operations reach the store.
 */
import { createGateway, type Gateway } from "../src/gateway.ts";
import { BLOB_KEY_INFO, deriveKey } from "../src/keys/hkdf.ts";
import { kvStore } from "../src/store/kv.ts";
import { CountingStore } from "./_counting_store.ts";
import { createKvFile } from "./_kv_file.ts";
import { figure, type Report } from "./_report.ts";

/** The sizes of the benchmark. */
export const SESSION_KEY_SIZES = {
  keys: 1_000,
  concurrent: 32,
  rounds: 5,
  crowd: 200,
};

/** Runs the benchmark. */
export async function sessionKey(
  { keys, concurrent, rounds, crowd } = SESSION_KEY_SIZES,
): Promise<Report> {
  await using file = await createKvFile();
  using kv = await file.open();
  const store = new CountingStore(kvStore(kv, { maxChecks: 100 }));
  await using gateway = await createGateway({
    variables: { REP_SENSITIVE_A: "value" },
    store,
  });
  const secret = crypto.getRandomValues(new Uint8Array(32));
  await request(gateway, addressOf(0)); // creates the master key

  const ours: number[] = [];
  const floor: number[] = [];
  const checkedFloor: number[] = [];
  let client = 1;
  for (let round = 0; round < rounds; round++) {
    ours.push(
      await rate(keys, concurrent, () => request(gateway, addressOf(client++))),
    );
    floor.push(
      await rate(keys, concurrent, () => bareKey(kv, secret, client++)),
    );
    checkedFloor.push(
      await rate(keys, concurrent, () => checkedKey(kv, secret, client++)),
    );
  }
  store.takeLoad();
  const statuses = await Promise.all(
    Array.from({ length: crowd }, () => request(gateway, addressOf(client))),
  );
  const { gets, commits } = store.takeLoad();
  return {
    title:
      `session keys: ${keys} clients, ${concurrent} at once, ${rounds} rounds`,
    figures: [
      figure("keys per second, gateway", "", ours),
      figure("keys per second, floor", "", floor),
      figure(
        "keys per second, gateway / floor",
        "",
        ours.map((it, index) => it / Number(floor[index])),
      ),
      figure(
        "keys per second, gateway / floor that reads and checks",
        "",
        ours.map((it, index) => it / Number(checkedFloor[index])),
      ),
      figure(`${crowd} requests of one client at once: keys`, "", [
        statuses.filter((status) => status === 200).length,
      ]),
      figure(`${crowd} requests of one client at once: reads`, "", [gets]),
      figure(`${crowd} requests of one client at once: commits`, "", [commits]),
    ],
  };
}

/** The least work for a key. */
async function bareKey(
  kv: Deno.Kv,
  secret: Uint8Array<ArrayBuffer>,
  client: number,
): Promise<void> {
  await deriveKey(secret, { salt: String(client), info: BLOB_KEY_INFO });
  await kv.atomic().set(["bare", client], [Date.now()]).commit();
}

/** The least work with which two processes on one store can count together. */
async function checkedKey(
  kv: Deno.Kv,
  secret: Uint8Array<ArrayBuffer>,
  client: number,
): Promise<void> {
  await deriveKey(secret, { salt: String(client), info: BLOB_KEY_INFO });
  const entry = await kv.get(["bare", client]);
  await kv.atomic().check(entry).set(["bare", client], [Date.now()]).commit();
}

async function rate(
  count: number,
  concurrent: number,
  once: () => Promise<unknown>,
): Promise<number> {
  let left = count;
  const worker = async () => {
    while (left-- > 0) await once();
  };
  const start = performance.now();
  await Promise.all(Array.from({ length: concurrent }, worker));
  return count / (performance.now() - start) * 1_000;
}

async function request(gateway: Gateway, hostname: string): Promise<number> {
  const url = "http://localhost/rep/session-key";
  const response = await gateway.fetch(new Request(url), {
    remoteAddr: { transport: "tcp", hostname, port: 1 },
  });
  await response.body?.cancel();
  return response.status;
}

/** Returns the address of a client (RFC 6890: 10.0.0.0/8 is private). */
function addressOf(client: number): string {
  return `10.${client >> 16 & 255}.${client >> 8 & 255}.${client & 255}`;
}
