import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { createEpochs, type EpochOptions, type Epochs } from "../../src/crypto/epochs.ts";
import { BLOB_KEY_INFO, deriveKey, INTEGRITY_KEY_INFO } from "../../src/crypto/hkdf.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { encodeHex } from "../_hex.ts";

const MASTER = new Uint8Array(32).fill(7);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** An epoch of ten minutes begins here. */
const START = 1_700_000_400_000;
const KID = "1700000400";

function epochsAt(now: number, options: Partial<EpochOptions> = {}): Epochs & { clock: FakeClock } {
  const clock = new FakeClock(now);
  const masterKey = () => Promise.resolve(MASTER);
  const epochs = createEpochs({ clock, masterKey, rotationMs: 10 * MINUTE, retentionMs: 24 * HOUR, ...options });
  return { ...epochs, clock };
}

Deno.test("current() is the second in which the epoch began", () => {
  const names = [START - 1, START, START + 1, START + 10 * MINUTE - 1, START + 10 * MINUTE]
    .map((now) => epochsAt(now).current());
  assertEquals(names, ["1699999800", KID, KID, KID, "1700001000"]);
});

Deno.test("current() is the same in every process with the same rotation, whenever it was started", async () => {
  const early = epochsAt(START - 3 * HOUR);
  const late = epochsAt(START + 7 * MINUTE);
  await early.clock.tick(3 * HOUR + 9 * MINUTE);
  assertEquals(early.current(), late.current());
});

Deno.test("current() can be asked for at every time of every rotation", () => {
  for (const rotationMs of [1_000, 7_000, MINUTE, 24 * HOUR]) {
    for (const now of [0, 1, 999, 1_000, START, 10_000_000_000_000]) {
      const epochs = epochsAt(now, { rotationMs, retentionMs: 1_000 });
      assertEquals([rotationMs, now, epochs.checkKid(epochs.current())], [rotationMs, now, "valid"]);
    }
  }
});

Deno.test("checkKid() finds an epoch valid until its retention after its end, so that each page has all of it", () => {
  const end = START + 10 * MINUTE;
  const verdicts = [START, end - 1, end + 24 * HOUR - 1, end + 24 * HOUR].map((now) => epochsAt(now).checkKid(KID));
  assertEquals(verdicts, ["valid", "valid", "valid", "expired"]);
});

Deno.test("checkKid() keeps a page of a long epoch as long as one of a short", () => {
  const options = { rotationMs: 24 * HOUR, retentionMs: MINUTE };
  const kid = epochsAt(START, options).current();
  const end = Number(kid) * 1_000 + 24 * HOUR;
  const verdicts = [end - 1, end + MINUTE - 1, end + MINUTE].map((now) => epochsAt(now, options).checkKid(kid));
  assertEquals(verdicts, ["valid", "valid", "expired"]);
});

Deno.test("checkKid() allows for another process's clock that is up to a minute ahead", () => {
  const verdicts = [START - MINUTE, START - MINUTE - 1].map((now) => epochsAt(now).checkKid(KID));
  assertEquals(verdicts, ["valid", "malformed"]);
});

Deno.test("checkKid() finds malformed whatever is no second of ours", () => {
  const { checkKid } = epochsAt(START);
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
      "1.7e9",
      "0x65",
      "NaN",
    ]
  ) {
    assertEquals([kid, checkKid(kid)], [kid, "malformed"]);
  }
  for (const kid of ["Infinity", "१७००००००००", "k", "1".repeat(12), "9".repeat(10_000), "99999999999", "__proto__"]) {
    assertEquals([kid, checkKid(kid)], [kid, "malformed"]);
  }
});

Deno.test("checkKid() finds the earliest second expired", () => {
  assertEquals(epochsAt(START).checkKid("1"), "expired");
});

Deno.test("keys() derives both keys from the master secret and the epoch's name", async () => {
  assertEquals(await epochsAt(START).keys(KID), {
    kid: KID,
    blobKey: await deriveKey(MASTER, { salt: KID, info: BLOB_KEY_INFO }),
    integrityKey: await deriveKey(MASTER, { salt: KID, info: INTEGRITY_KEY_INFO }),
  });
});

Deno.test("keys() gives each epoch its own keys, and none of them is the master secret", async () => {
  const { keys } = epochsAt(START);
  const [one, other] = [await keys("1700000400"), await keys("1700001000")];
  const all = [one.blobKey, one.integrityKey, other.blobKey, other.integrityKey, MASTER];
  assertEquals(new Set(all.map(encodeHex)).size, 5);
});

Deno.test("keys() gives two processes with the same master secret the same keys, others other ones", async () => {
  const mine = await epochsAt(START).keys(KID);
  assertEquals(await epochsAt(START + HOUR, { rotationMs: HOUR }).keys(KID), mine);
  const masterKey = () => Promise.resolve(new Uint8Array(32).fill(8));
  assertNotEquals(await epochsAt(START, { masterKey }).keys(KID), mine);
});

Deno.test("keys() asks for the master secret once, however many ask it for keys of however many epochs", async () => {
  let asked = 0;
  const { keys } = epochsAt(START, { masterKey: () => Promise.resolve(MASTER).finally(() => asked++) });
  await Promise.all(["1", "2", "1", "3"].map(keys));
  await keys("4");
  assertEquals(asked, 1);
});

Deno.test("keys() fails while there is no master secret, and asks again the next time", async () => {
  let asked = 0;
  const masterKey = () => ++asked < 3 ? Promise.reject(new TypeError("The store is down")) : Promise.resolve(MASTER);
  const { keys } = epochsAt(START, { masterKey });
  await assertRejects(() => keys(KID), TypeError, "The store is down");
  await assertRejects(() => keys(KID), TypeError, "The store is down");
  assertEquals(await keys(KID), await epochsAt(START).keys(KID));
  assertEquals(asked, 3);
});

Deno.test("keys() keeps what it derived, but not of more than 200 epochs", async () => {
  const { keys } = epochsAt(START);
  const first = await keys("1");
  for (let kid = 2; kid <= 200; kid++) await keys(String(kid));
  assertEquals(await keys("1") === first, true);
  await keys("201");
  assertEquals(await keys("1") === first, false);
  assertEquals(await keys("1"), first);
});
