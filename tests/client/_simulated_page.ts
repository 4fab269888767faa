import { createClient } from "../../src/client/client.ts";
import type { SeededChoices } from "../../tools/seeded_random.ts";
import type { VirtualTime } from "../_virtual_time.ts";

type Page = Parameters<typeof createClient>[0];

/** What differs between the pages of simulations. */
interface SimulatedPage extends Pick<Page, "EventSource" | "addEventListener"> {
  readonly time: VirtualTime;
  readonly choices: SeededChoices;
  /** What the page's configuration script contains. */
  readonly payload: unknown;
  /** Whether the page is hidden, which may change. */
  readonly visibility: { hidden: boolean };
}

/** Starts the client of a page in simulated time. Nobody serves session keys, and an error ends the simulation. */
export function openSimulatedPage(
  { time, choices, payload, visibility, EventSource, addEventListener }:
    SimulatedPage,
) {
  const timers = new Map<number, () => void>();
  let lastTimer = 0;
  const element = {
    textContent: JSON.stringify(payload),
    getAttribute: () => null,
  };
  return createClient({
    document: {
      get hidden() {
        return visibility.hidden;
      },
      getElementById: () => element,
    },
    location: { origin: "https://app.example.com" },
    EventSource,
    crypto: {},
    console: { warn() {} },
    Math: { random: choices.random },
    performance: { now: () => time.now },
    reportError(error) {
      throw error;
    },
    fetch: () => Promise.reject(new Error("no keys")),
    addEventListener,
    setTimeout(callback, ms) {
      timers.set(++lastTimer, time.after(ms, callback));
      return lastTimer;
    },
    clearTimeout: (timer) => timers.get(timer as number)?.(),
  });
}
