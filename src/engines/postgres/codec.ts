import { decodeBase64, encodeBase64 } from "@std/encoding/base64";
import type { Key } from "../../core/store/store.ts";

/**
 * Encodes a key: the parts before the last one, and the last one. All keys directly under one prefix have the same
 * `prefix`, and are ordered by the bytes of `name`.
 */
export function encodeKey(key: Key): [prefix: string, name: string] {
  return [encodePrefix(key.slice(0, -1)), encodeName(key.at(-1) ?? "")];
}

/** Encodes a prefix. It is compared for equality only. */
export function encodePrefix(prefix: Key): string {
  return JSON.stringify(prefix);
}

/** Encodes the last part of a key, so that sorting by bytes gives the order of the contract: strings before numbers. */
export function encodeName(name: string | number): string {
  if (typeof name === "number") return `n${encodeNumber(name)}`;
  return `-${encodeText(name)}`;
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
  return text.toWellFormed()
    .replaceAll("\x01", "\x01\x02")
    .replaceAll("\0", "\x01\x01");
}

function decodeText(text: string): string {
  return text
    .replaceAll("\x01\x01", "\0")
    .replaceAll("\x01\x02", "\x01");
}

const SIGN = 1n << 63n;

/** The bits of an IEEE 754 double in hexadecimal, with the sign inverted: the order of numbers that are not negative. */
function encodeNumber(number: number): string {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  return (view.getBigUint64(0) | SIGN).toString(16);
}

function decodeNumber(text: string): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(`0x${text}`) ^ SIGN);
  return view.getFloat64(0);
}

/**
 * The only property of the object that stands for bytes. No other value that the gateway stores has a property of this
 * name.
 */
const BYTES = "$bytes";

/**
 * Encodes a value as JSON, which an operator can read in `psql`. Bytes become `{"$bytes": "…base64…"}`.
 *
 * @throws {TypeError} If JSON cannot represent it.
 */
export function encodeValue(value: unknown): string {
  const text = JSON.stringify(value, encodePart);
  if (text !== undefined) return text;
  throw new TypeError(
    `Cannot store a ${typeof value}: expected a JSON value or bytes`,
  );
}

/** Decodes what {@linkcode encodeValue} returned. */
export function decodeValue(text: string): unknown {
  return JSON.parse(text, decodePart);
}

function encodePart(_name: string, part: unknown): unknown {
  return part instanceof Uint8Array ? { [BYTES]: encodeBase64(part) } : part;
}

function decodePart(_name: string, part: unknown): unknown {
  if (typeof part !== "object" || part === null) return part;
  const bytes = (part as Record<string, unknown>)[BYTES];
  return typeof bytes === "string" ? decodeBase64(bytes) : part;
}
