/** Reads so many bytes of a response, which may then go on, and cancels the rest. */
export async function readBytes(
  { body }: Response,
  bytes: number,
): Promise<void> {
  let missing = bytes;
  for await (const { length } of body ?? []) {
    missing -= length;
    if (missing <= 0) break;
  }
}
