/**
 * How many session keys one process hands out a second, and what a crowd behind one address costs the store.
 *
 *     deno task bench session_key --keys 1000 --concurrent 32 --rounds 5
 *
 * Each key is for another client, on a Deno KV file; beside the floor in the same run: a bare HKDF and a bare commit for each,
 * and the same with the read and the check without which processes cannot count together. Then 200 requests of one client at once: how often the store is asked.
 */
import { createGateway, type Gateway } from "../src/gateway.ts";
import { BLOB_KEY_INFO, deriveKey } from "../src/crypto/hkdf.ts";
import { kvStore } from "../src/store/kv.ts";
import { countedStore } from "./_counted_store.ts";
import { kvFile } from "./_kv_file.ts";
import { figure, type Report } from "./_report.ts";

/** How much there is to do. */
export const SESSION_KEY_SIZES = { keys: 1_000, concurrent: 32, rounds: 5, crowd: 200 };

/** Runs the benchmark. */
export async function sessionKey({ keys, concurrent, rounds, crowd } = SESSION_KEY_SIZES): Promise<Report> {
  await using file = await kvFile();
  using kv = await file.open();
  const store = countedStore(kvStore(kv));
  await using gateway = await createGateway({ variables: { REP_SENSITIVE_A: "value" }, store });
  const secret = crypto.getRandomValues(new Uint8Array(32));
  await ask(gateway, addressOf(0)); // makes the master secret

  const ours: number[] = [];
  const floor: number[] = [];
  const checkedFloor: number[] = [];
  let client = 1;
  for (let round = 0; round < rounds; round++) {
    ours.push(await rate(keys, concurrent, () => ask(gateway, addressOf(client++))));
    floor.push(await rate(keys, concurrent, () => bareKey(kv, secret, client++)));
    checkedFloor.push(await rate(keys, concurrent, () => checkedKey(kv, secret, client++)));
  }
  store.take();
  const answers = await Promise.all(Array.from({ length: crowd }, () => ask(gateway, addressOf(client))));
  const { gets, commits } = store.take();
  return {
    title: `session keys: ${keys} clients, ${concurrent} at once, ${rounds} rounds`,
    figures: [
      figure("keys per second, gateway", "", ours),
      figure("keys per second, floor", "", floor),
      figure("keys per second, gateway / floor", "", ours.map((it, at) => it / Number(floor[at]))),
      figure(
        "keys per second, gateway / floor that reads and checks",
        "",
        ours.map((it, at) => it / Number(checkedFloor[at])),
      ),
      figure(`${crowd} requests of one client at once: keys`, "", [answers.filter((status) => status === 200).length]),
      figure(`${crowd} requests of one client at once: reads`, "", [gets]),
      figure(`${crowd} requests of one client at once: commits`, "", [commits]),
    ],
  };
}

/** The least that is written for a key. */
async function bareKey(kv: Deno.Kv, secret: Uint8Array<ArrayBuffer>, client: number): Promise<void> {
  await deriveKey(secret, { salt: String(client), info: BLOB_KEY_INFO });
  await kv.atomic().set(["bare", client], [Date.now()]).commit();
}

/** The least with which two processes on one store can count together. */
async function checkedKey(kv: Deno.Kv, secret: Uint8Array<ArrayBuffer>, client: number): Promise<void> {
  await deriveKey(secret, { salt: String(client), info: BLOB_KEY_INFO });
  const entry = await kv.get(["bare", client]);
  await kv.atomic().check(entry).set(["bare", client], [Date.now()]).commit();
}

async function rate(count: number, concurrent: number, once: () => Promise<unknown>): Promise<number> {
  let left = count;
  const worker = async () => {
    while (left-- > 0) await once();
  };
  const start = performance.now();
  await Promise.all(Array.from({ length: concurrent }, worker));
  return count / (performance.now() - start) * 1_000;
}

async function ask(gateway: Gateway, hostname: string): Promise<number> {
  const request = new Request("http://localhost/rep/session-key");
  const response = await gateway.fetch(request, { remoteAddr: { transport: "tcp", hostname, port: 1 } });
  await response.body?.cancel();
  return response.status;
}

/** An address of its own for each client (RFC 6890: 10.0.0.0/8 is private). */
function addressOf(client: number): string {
  return `10.${client >> 16 & 255}.${client >> 8 & 255}.${client & 255}`;
}
