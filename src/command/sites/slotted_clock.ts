import type { Clock } from "../../core/values/clock.ts";

/** How far apart the slots are, and so twice by how much a timer may be early or late. */
const SLOT_MS = 250;

/**
 * Returns a clock that runs the background timers of all sites together which are due at about the same time. So what they
 * then read from the store is read at one go (`joined_reads.ts`). Other timers, and short ones, are exact.
 */
export function slottedClock(clock: Clock): Clock {
  const slots = new Map<number, Set<{ readonly callback: () => void }>>();

  function open(slot: number) {
    const timers = new Set<{ readonly callback: () => void }>();
    slots.set(slot, timers);
    const ms = Math.max(0, slot * SLOT_MS - clock.monotonic());
    clock.after(ms, () => {
      slots.delete(slot);
      for (const { callback } of timers) callback();
    }, true);
    return timers;
  }

  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    after(ms, callback, isBackground = false) {
      if (!isBackground || ms < SLOT_MS) {
        return clock.after(ms, callback, isBackground);
      }
      const slot = Math.round((clock.monotonic() + ms) / SLOT_MS);
      const timers = slots.get(slot) ?? open(slot);
      const timer = { callback };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
  };
}
