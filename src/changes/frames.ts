/** An event, encoded once for all streams. */
export interface Frame {
  readonly id: number;
  readonly bytes: Uint8Array;
}

/** Returns the total size of frames in bytes. */
export function sizeOf(frames: readonly Frame[]): number {
  return frames.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

/**
 * Returns the frames after a cursor, up to a total size.
 *
 * @param frames Frames in order.
 * @param cursor The id of the last event to skip.
 * @param maxBytes The maximum total size; a single frame may exceed it.
 */
export function takeAfter<F extends Frame>(frames: readonly F[], cursor: number, maxBytes: number): readonly F[] {
  const first = indexAfter(frames, cursor);
  let end = first;
  let bytes = 0;
  while (end < frames.length && (end === first || bytes + (frames[end]?.bytes.length ?? 0) <= maxBytes)) {
    bytes += frames[end++]?.bytes.length ?? 0;
  }
  return frames.slice(first, end);
}

/** Returns the index of the first event after a cursor. */
function indexAfter(frames: readonly Frame[], cursor: number): number {
  let low = 0;
  let high = frames.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((frames[middle]?.id ?? 0) <= cursor) low = middle + 1;
    else high = middle;
  }
  return low;
}
