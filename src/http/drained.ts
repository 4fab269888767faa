/** The part of a writable stream of `node:stream` that {@linkcode drained} uses. */
interface Writable {
  on(event: "close" | "drain", listener: () => void): unknown;
  off(event: "close" | "drain", listener: () => void): unknown;
}

/** Waits until more can be written to a stream, or the stream is closed. */
export function drained(stream: Writable): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const events = ["drain", "close"] as const;
  for (const event of events) stream.on(event, resolve);
  return promise.finally(() =>
    events.forEach((event) => stream.off(event, resolve))
  );
}
