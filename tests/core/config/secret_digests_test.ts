import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import type { GatewayOptions } from "../../../src/options.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { setUp, type TestGateway } from "../../_gateway.ts";
import { readStatus } from "../../_status.ts";
import { fallibleStore } from "../../_store.ts";

const SECRETS = {
  REP_PUBLIC_A: "1",
  REP_SENSITIVE_B: "s3cret",
  REP_SENSITIVE_C: "2",
  REP_SERVER_D: "t0ken",
};

/** Returns the digests on the status page. */
async function digestsOf(gate: TestGateway) {
  const { sensitive_digest: sensitive, server_digest: server } =
    (await readStatus(gate)).configuration;
  return { sensitive, server };
}

async function startWith(
  variables: Record<string, string>,
  options: GatewayOptions = {},
) {
  return await setUp(variables, { clock: new FakeClock(), ...options });
}

Deno.test("replicas with the same secrets and master key have the same digests: status, metric, log", async () => {
  const store = memoryStore();
  const { REP_SENSITIVE_B, ...others } = SECRETS;
  await using first = await startWith(SECRETS, { store });
  await using second = await startWith({ ...others, REP_SENSITIVE_B }, {
    store,
  });
  const before = await digestsOf(first);
  assertMatch(before.sensitive ?? "", /^[0-9a-f]{12}$/);
  assertEquals(await digestsOf(second), before);

  await first.set({ ...SECRETS, REP_SENSITIVE_B: "rotated" });
  const after = await digestsOf(first);
  assertNotEquals(after.sensitive, before.sensitive);
  assertEquals(after.server, before.server);
  const [line] = first.logged("rep.config.reloaded");
  assertEquals([line?.sensitive_digest, line?.server_digest], [
    after.sensitive,
    after.server,
  ]);
  assertEquals(
    await first.metric("rep_config_secrets"),
    `rep_config_secrets{sensitive="${after.sensitive}",server="${after.server}"} 1`,
  );
  await second.set({ ...SECRETS, REP_SENSITIVE_B: "rotated" });
  assertEquals(await digestsOf(second), after);

  await second.set({ ...SECRETS, REP_SERVER_D: "new" });
  assertEquals((await digestsOf(second)).sensitive, before.sensitive);
  assertNotEquals((await digestsOf(second)).server, before.server);
});

Deno.test("digests depend on the master key and on the app, so that nobody can try likely values", async () => {
  const masterKey = new Uint8Array(32).fill(7);
  await using gate = await startWith(SECRETS, { masterKey });
  await using other = await startWith(SECRETS);
  await using app = await startWith(SECRETS, { masterKey, app: "shop" });
  const all = await Promise.all([gate, other, app].map(digestsOf));
  assertEquals(new Set(all.map(({ server }) => server)).size, 3);
  const output = JSON.stringify([gate.lines, await readStatus(gate)]);
  assertEquals(/s3cret|t0ken/.test(output), false);
});

Deno.test("there are no digests while the master key has not been loaded", async () => {
  const store = fallibleStore(memoryStore(), () => true);
  await using gate = await startWith(SECRETS, {
    store,
    startWithoutStore: true,
  });
  assertEquals(await digestsOf(gate), {
    sensitive: undefined,
    server: undefined,
  });
  assertEquals(await gate.metric("rep_config_secrets"), undefined);
});
