import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import {
  type EpochKeys,
  type EpochOptions,
  Epochs,
} from "../../../src/core/keys/epochs.ts";
import { MAX_CLOCK_SKEW_MS } from "../../../src/core/values/clock.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { kidOf } from "../../_kid.ts";

const MASTER = new Uint8Array(32).fill(7);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** The start of an epoch of ten minutes. */
const START = 1_700_000_400_000;
const EPOCH = "1700000400";
const KID = `${EPOCH}-a723587df2f5`;

function epochsAt(
  now: number,
  options: Partial<EpochOptions> = {},
) {
  const clock = new FakeClock(now);
  const masterKey = () => Promise.resolve(MASTER);
  const epochs = new Epochs({
    clock,
    masterKey,
    rotationMs: 10 * MINUTE,
    retentionMs: 24 * HOUR,
    ...options,
  });
  return Object.assign(epochs, { clock });
}

Deno.test("Epochs.current() returns the second in which the epoch began", () => {
  const kids = [
    START - 1,
    START,
    START + 1,
    START + 10 * MINUTE - 1,
    START + 10 * MINUTE,
  ]
    .map((now) => epochsAt(now).current());
  assertEquals(kids, ["1699999800", EPOCH, EPOCH, EPOCH, "1700001000"]);
});

Deno.test("Epochs.checkKid() counts the retention from the end of an epoch, however long that is", () => {
  const options = { rotationMs: 24 * HOUR, retentionMs: MINUTE };
  const epoch = epochsAt(START, options).current();
  const kid = `${epoch}-a723587df2f5`;
  const end = Number(epoch) * 1_000 + 24 * HOUR;
  const checks = [end - 1, end + MINUTE - 1, end + MINUTE].map((now) =>
    epochsAt(now, options).checkKid(kid)
  );
  assertEquals(checks, ["valid", "valid", "expired"]);
});

Deno.test("Epochs.keysOf() returns the keys of an epoch of another process whose clock is up to a minute ahead", async () => {
  const [inTime, tooEarly] = [
    epochsAt(START - MAX_CLOCK_SKEW_MS),
    epochsAt(START - MAX_CLOCK_SKEW_MS - 1),
  ];
  assertEquals(MAX_CLOCK_SKEW_MS, MINUTE);
  assertEquals((await inTime.keysOf(KID) as EpochKeys).kid, KID);
  assertEquals(tooEarly.checkKid(KID), "valid"); // the reason is told after the rate limit
  assertEquals(await tooEarly.keysOf(KID), "clock_skew");
});

Deno.test("Epochs.checkKid() rejects as malformed anything but a Unix time in seconds and a fingerprint", () => {
  const epochs = epochsAt(START);
  for (
    const kid of [
      "",
      "0",
      `0${KID}`,
      `+${KID}`,
      `-${KID}`,
      ` ${KID}`,
      `${KID} `,
      `${KID}\n`,
      `${KID}.0`,
      EPOCH,
      "1.7e9",
      "0x65",
      "NaN",
      `${KID}0`,
      `${KID.slice(0, -1)}`,
      `${KID} `,
      `${EPOCH}-`,
      `${EPOCH}-000000000000-`,
      `${EPOCH}-00000000000A`,
      `${EPOCH}-00000000000g`,
      `-${EPOCH}`,
      KID.replace("-", "_"),
    ]
  ) {
    assertEquals([kid, epochs.checkKid(kid)], [kid, "malformed"]);
  }
  for (
    const kid of [
      "Infinity",
      "१७००००००००",
      "k",
      "1".repeat(12),
      "9".repeat(10_000),
      "__proto__",
    ]
  ) {
    assertEquals([kid, epochs.checkKid(kid)], [kid, "malformed"]);
  }
});

Deno.test("Epochs.keysOf() returns the keys of an epoch for its kid", async () => {
  const epochs = epochsAt(START);
  const keys = await epochs.keys(EPOCH);
  assertEquals(keys.kid, KID);
  assertEquals(await epochs.keysOf(KID) === keys, true);
});

Deno.test("Epochs.keysOf() rejects a kid of another master key", async () => {
  const other = await kidOf(EPOCH, new Uint8Array(32).fill(8));
  for (const kid of [other, `${EPOCH}-000000000000`]) {
    const keys = await epochsAt(START).keysOf(kid);
    assertEquals(keys, "unknown_master_key");
  }
});

Deno.test("Epochs.keys() derives both keys from the master key and the kid", async () => {
  // openssl kdf -keylen 32 -kdfopt digest:SHA256 -kdfopt hexkey:0707…07 -kdfopt salt:1700000400 -kdfopt info:… HKDF
  const { kid, sessionKey, integrityKey } = await epochsAt(START).keys(EPOCH);
  assertEquals(kid, KID);
  assertEquals(
    sessionKey.toHex(), // rep-blob-encryption-v1
    "cc5ad221f91f3654b9862a2773b3af320ef2dd12f63da68d37277c9a7aec3bbc",
  );
  assertEquals(
    integrityKey.toHex(), // rep-integrity-v1
    "3d18fc0340e111df8e54189f64b2bdedec9cb42e986d881551c91f121445b326",
  );
});

Deno.test("Epochs.keys() returns different keys for each epoch, none of them the master key", async () => {
  const epochs = epochsAt(START);
  const [one, other] = [
    await epochs.keys("1700000400"),
    await epochs.keys("1700001000"),
  ];
  const all = [
    one.sessionKey,
    one.integrityKey,
    other.sessionKey,
    other.integrityKey,
    MASTER,
  ];
  assertEquals(new Set(all.map((key) => key.toHex())).size, 5);
});

Deno.test("Epochs.keys() returns the same keys in processes with the same master key only", async () => {
  const mine = await epochsAt(START).keys(EPOCH);
  assertEquals(
    await epochsAt(START + HOUR, { rotationMs: HOUR }).keys(EPOCH),
    mine,
  );
  const masterKey = () => Promise.resolve(new Uint8Array(32).fill(8));
  assertNotEquals(await epochsAt(START, { masterKey }).keys(EPOCH), mine);
});

Deno.test("Epochs.keys() returns other keys for each app with the same master key, and rejects their kids", async () => {
  const apps = [undefined, "shop", "shop.example.com"];
  const all = await Promise.all(
    apps.map((app) => epochsAt(START, { app }).keys(EPOCH)),
  );
  assertEquals(all[0]?.kid, KID); // an app without a name keeps the keys of earlier versions
  for (const field of ["kid", "sessionKey", "integrityKey"] as const) {
    assertEquals(new Set(all.map((keys) => String(keys[field]))).size, 3);
  }
  assertEquals(
    await epochsAt(START, { app: "shop" }).keysOf(KID),
    "unknown_master_key",
  );
});

Deno.test("Epochs.keys() loads the master key once for all callers and epochs", async () => {
  let loads = 0;
  const epochs = epochsAt(START, {
    masterKey: () => Promise.resolve(MASTER).finally(() => loads++),
  });
  await Promise.all(["1", "2", "1", "3"].map((kid) => epochs.keys(kid)));
  await epochs.keys("4");
  assertEquals(loads, 1);
});

Deno.test("Epochs.keys() rejects if the master key cannot be loaded, and loads it again the next time", async () => {
  let loads = 0;
  const masterKey = () =>
    ++loads < 3
      ? Promise.reject(new TypeError("The store is down"))
      : Promise.resolve(MASTER);
  const epochs = epochsAt(START, { masterKey });
  await assertRejects(() => epochs.keys(EPOCH), TypeError, "The store is down");
  await assertRejects(() => epochs.keys(EPOCH), TypeError, "The store is down");
  assertEquals(await epochs.keys(EPOCH), await epochsAt(START).keys(EPOCH));
  assertEquals(loads, 3);
});

Deno.test("Epochs.keys() caches the keys of up to 200 epochs", async () => {
  const epochs = epochsAt(START);
  const first = await epochs.keys("1");
  for (let kid = 2; kid <= 200; kid++) await epochs.keys(String(kid));
  assertEquals(await epochs.keys("1") === first, true);
  await epochs.keys("201");
  assertEquals(await epochs.keys("1") === first, false);
  assertEquals(await epochs.keys("1"), first);
});
