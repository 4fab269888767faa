import { assertEquals } from "@std/assert";
import {
  deriveKey,
  INTEGRITY_KEY_INFO,
  SESSION_KEY_INFO,
} from "../../src/keys/hkdf.ts";

const MASTER = new Uint8Array(32).fill(7);

/**
 * A reference implementation of HKDF-SHA-256 (RFC 5869 §2). The test vectors of the RFC have salts and infos that are
 * not text, which `deriveKey()` does not accept. So they test this function, and this function tests `deriveKey()`.
 */
async function hkdf(
  { material, salt, info, length }:
    & Record<"material" | "salt" | "info", Uint8Array<ArrayBuffer>>
    & { length: number },
): Promise<Uint8Array> {
  const pseudoRandomKey = await hmac(
    salt.length === 0 ? new Uint8Array(32) : salt,
    material,
  );
  let block = new Uint8Array();
  let output = new Uint8Array();
  for (let index = 1; output.length < length; index++) {
    block = await hmac(
      pseudoRandomKey,
      new Uint8Array([...block, ...info, index]),
    );
    output = new Uint8Array([...output, ...block]);
  }
  return output.slice(0, length);
}

async function hmac(
  key: Uint8Array<ArrayBuffer>,
  data: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  const imported = await crypto.subtle.importKey(
    "raw",
    key,
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  );
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, data));
}

const range = (from: number, to: number) =>
  Uint8Array.from({ length: to - from + 1 }, (_, index) => from + index);

/** The test vectors for SHA-256 (RFC 5869, Appendix A.1 to A.3). */
const VECTORS = [
  {
    name: "A.1",
    input: {
      material: new Uint8Array(22).fill(0x0b),
      salt: range(0x00, 0x0c),
      info: range(0xf0, 0xf9),
      length: 42,
    },
    output:
      "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
  },
  {
    name: "A.2",
    input: {
      material: range(0x00, 0x4f),
      salt: range(0x60, 0xaf),
      info: range(0xb0, 0xff),
      length: 82,
    },
    output: "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c" +
      "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71" +
      "cc30c58179ec3e87c14c01d5c1f3434f1d87",
  },
  {
    name: "A.3",
    input: {
      material: new Uint8Array(22).fill(0x0b),
      salt: new Uint8Array(),
      info: new Uint8Array(),
      length: 42,
    },
    output:
      "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
  },
];

for (const { name, input, output } of VECTORS) {
  Deno.test(`The reference implementation agrees with RFC 5869, ${name}`, async () => {
    assertEquals((await hkdf(input)).toHex(), output);
  });
}

Deno.test("deriveKey() agrees with RFC 5869, A.3, in the first 32 bytes", async () => {
  const key = await deriveKey(new Uint8Array(22).fill(0x0b), {
    salt: "",
    info: "",
  });
  assertEquals(key.toHex(), VECTORS[2]?.output.slice(0, 64));
});

Deno.test("deriveKey() applies HKDF-SHA-256 to the UTF-8 of salt and info", async () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  for (
    const [salt, info] of [
      ["1700000400", SESSION_KEY_INFO],
      ["1700000400", INTEGRITY_KEY_INFO],
      ["", "ä\u{1f600}"],
      ["x".repeat(100), ""],
    ] as const
  ) {
    const expected = await hkdf({
      material: MASTER,
      salt: bytes(salt),
      info: bytes(info),
      length: 32,
    });
    assertEquals(await deriveKey(MASTER, { salt, info }), expected);
  }
});

Deno.test("deriveKey() returns 32 bytes that depend on the master key, the epoch and the purpose", async () => {
  const keys = await Promise.all([
    deriveKey(MASTER, { salt: "1", info: "a" }),
    deriveKey(MASTER, { salt: "2", info: "a" }),
    deriveKey(MASTER, { salt: "1", info: "b" }),
    deriveKey(new Uint8Array(32).fill(8), { salt: "1", info: "a" }),
    deriveKey(MASTER, { salt: "1a", info: "" }), // salt and info are not concatenated
  ]);
  assertEquals(keys.map((key) => key.length), [32, 32, 32, 32, 32]);
  assertEquals(new Set(keys.map((key) => key.toHex())).size, 5);
  assertEquals(await deriveKey(MASTER, { salt: "1", info: "a" }), keys[0]);
});

Deno.test("deriveKey() does not modify the master key", async () => {
  const master = MASTER.slice();
  await deriveKey(master, { salt: "1", info: "a" });
  assertEquals(master, MASTER);
});
