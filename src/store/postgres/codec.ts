import { decodeBase64, encodeBase64 } from "@std/encoding/base64";
import type { Key } from "../store.ts";

/** A key as it is stored: the parts before the last one, and the last one. */
export interface EncodedKey {
  readonly prefix: string;
  readonly name: string;
}

/**
 * Encodes a key. All keys directly under one prefix have the same `prefix`; their order is that of `name`, by bytes.
 */
export function encodeKey(key: Key): EncodedKey {
  return {
    prefix: encodePrefix(key.slice(0, -1)),
    name: encodeName(key.at(-1) ?? ""),
  };
}

/** Encodes a prefix. It is compared for equality only. */
export function encodePrefix(prefix: Key): string {
  return JSON.stringify(prefix);
}

/** Encodes the last part of a key, so that its order by bytes is that of the contract: strings before numbers. */
export function encodeName(name: string | number): string {
  return typeof name === "number"
    ? `n${encodeNumber(name)}`
    : `-${encodeText(name)}`;
}

/** Decodes what {@linkcode encodeName} returned. */
export function decodeName(encoded: string): string | number {
  const rest = encoded.slice(1);
  return encoded.startsWith("n") ? decodeNumber(rest) : decodeText(rest);
}

/**
 * PostgreSQL's text cannot contain NUL. It becomes U+0001 U+0001, and U+0001 becomes U+0001 U+0002, which preserves the
 * order.
 */
function encodeText(text: string): string {
  return text.toWellFormed().replace(
    // deno-lint-ignore no-control-regex -- see above
    /[\0\x01]/g,
    (found) => found === "\0" ? "\x01\x01" : "\x01\x02",
  );
}

function decodeText(text: string): string {
  return text.replace(
    // deno-lint-ignore no-control-regex -- see above
    /\x01([\x01\x02])/g,
    (_, code) => code === "\x01" ? "\0" : "\x01",
  );
}

const SIGN = 1n << 63n;
const ALL_BITS = (1n << 64n) - 1n;

/**
 * The bits of an IEEE 754 double in hexadecimal: the sign inverted, and of a negative number all other bits as well.
 */
function encodeNumber(number: number): string {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number + 0); // -0 is 0
  const bits = view.getBigUint64(0);
  const ordered = bits & SIGN ? bits ^ ALL_BITS : bits | SIGN;
  return ordered.toString(16).padStart(16, "0");
}

function decodeNumber(text: string): number {
  const ordered = BigInt(`0x${text}`);
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, ordered & SIGN ? ordered ^ SIGN : ordered ^ ALL_BITS);
  return view.getFloat64(0);
}

/** The name of the only property of the object that stands for bytes. */
const BYTES = "$bytes";

/**
 * Encodes a value as JSON, which an operator can read in `psql`. Bytes become `{"$bytes": "…base64…"}`, and the name of
 * any other property that begins with `$` gets another one.
 *
 * @throws {TypeError} If there is no JSON for it.
 */
export function encodeValue(value: unknown): string {
  const text = JSON.stringify(value, (_name, part) => escapePart(part));
  if (text === undefined) {
    throw new TypeError(
      `Cannot store a ${typeof value}: expected a JSON value or bytes`,
    );
  }
  return text;
}

function escapePart(part: unknown): unknown {
  if (part instanceof Uint8Array) return { [BYTES]: encodeBase64(part) };
  if (
    !isObject(part) || !Object.keys(part).some((name) => name.startsWith("$"))
  ) return part;
  return Object.fromEntries(
    Object.entries(part).map(([name, value]) => [escapeName(name), value]),
  );
}

/** Decodes what {@linkcode encodeValue} returned. */
export function decodeValue(text: string): unknown {
  return JSON.parse(text, (_name, part) => unescapePart(part));
}

function unescapePart(part: unknown): unknown {
  if (
    !isObject(part) || !Object.keys(part).some((name) => name.startsWith("$"))
  ) return part;
  const bytes = part[BYTES];
  if (typeof bytes === "string") return decodeBase64(bytes);
  return Object.fromEntries(
    Object.entries(part).map((
      [name, value],
    ) => [name.replace(/^\$/, ""), value]),
  );
}

function escapeName(name: string): string {
  return name.startsWith("$") ? `$${name}` : name;
}

function isObject(part: unknown): part is Record<string, unknown> {
  return typeof part === "object" && part !== null && !Array.isArray(part);
}
