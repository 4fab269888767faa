/** Bytes in hexadecimal digits: a set can hold them, and the RFCs write their vectors so. */
export function encodeHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
