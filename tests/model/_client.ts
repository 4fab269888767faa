import type { LogEvent } from "../../src/core/changes/event_log.ts";
import { equal } from "@std/assert";
import { openEventSource } from "./_event_source.ts";
import type { Simulation } from "./_simulation.ts";

/** What a client has when it opens the stream. */
export interface Beginning {
  /** The query of the stream. */
  readonly query: string;
  /** The id of the last event that it received over an earlier connection. */
  readonly lastEventId?: string;
  /** The id from which it has to receive every event; unknown until it has connected. */
  readonly cursor?: number;
  /** Its values; unknown if it has only a cursor. */
  readonly values?: ReadonlyMap<string, string>;
}

/** A client, and what it must have received. */
export type Client = ReturnType<typeof openClient>;

/** Opens a client. */
export function openClient(
  simulation: Simulation,
  number: number,
  { query, lastEventId = "", cursor, values }: Beginning,
) {
  const name = `client ${number} (${query || lastEventId || "now"})`;
  const fail = (reason: string) => simulation.fail(`${name} ${reason}`);
  /** Up to this id, it may have received only the newest event of each variable. */
  let collapsedUpTo = 0;
  /** Whether its stream skips outdated events: until it has read all that there is. */
  let skipsOutdated = false;
  const source = openEventSource(simulation, {
    name,
    query,
    lastEventId,
    onConnected(lastEventId) {
      simulation.note(
        `${name} is connected, with Last-Event-ID "${lastEventId}"`,
      );
      // Without the header, the stream continues from a page, or from an unknown position.
      skipsOutdated = lastEventId === "";
    },
    /** A stream has nothing to send if a read takes time. A client that is paused reads later than it connects. */
    onRead(reading) {
      if (!skipsOutdated) return;
      const { events, time } = simulation;
      const start = time.now;
      collapsedUpTo = events.at(-1)?.id ?? 0;
      reading.then(() => skipsOutdated &&= time.now === start, () => {});
    },
  });

  /** Whether an event need not be sent: it was deleted from the log, or outdated when the stream was opened. */
  function isExcused({ id, name }: LogEvent) {
    const { deleted, events } = simulation;
    const isNewer = (it: LogEvent) =>
      it.name === name && it.id > id && it.id <= collapsedUpTo;
    return deleted.has(id) || events.some(isNewer);
  }

  /**
   * A page lacks names that are published but not PUBLIC in the process that served it, or not any more. If they become
   * PUBLIC again, only that process knows; with another process, nothing is promised.
   */
  function verifyValues(expected: ReadonlyMap<string, string>) {
    if (values === undefined) return;
    const { states, processes, ready } = simulation;
    const isPromised = processes.length === 1 && ready.length === 1 ||
      states.some((state) => equal(state, values));
    if (!isPromised) return;
    const current = new Map(values);
    for (const { name, value } of source.events) {
      if (value === undefined) current.delete(name);
      else current.set(name, value);
    }
    if (!equal(current, expected)) {
      fail(`has ${describe(current)} instead of ${describe(expected)}`);
    }
  }

  /** The events that it should have received by now. */
  function missing(): LogEvent[] {
    const received = new Set(source.events.map(({ id }) => id));
    const start = cursor ?? Number(source.firstEventId ?? Infinity);
    return simulation.events.filter((event) =>
      event.id > start && !received.has(event.id) && !isExcused(event)
    );
  }

  return {
    source,
    missing,
    /** Checks that it has received every event once, and that its values are the published ones. */
    verify(expected: ReadonlyMap<string, string>) {
      const committed = new Map(simulation.events.map((it) => [it.id, it]));
      for (const { id, name, value, type } of source.events) {
        const event = committed.get(id);
        const kind = event?.value === undefined ? "delete" : "update";
        const sent = [`rep:config:${kind}`, event?.name, event?.value];
        if (!equal([type, name, value], sent)) {
          fail(`received ${type} ${name}=${value} as event ${id}, not ${sent}`);
        }
      }
      for (const { id, name, value } of missing()) {
        fail(`has not received event ${id}: ${name}=${value}`);
      }
      verifyValues(expected);
    },
  };
}

/** Returns a state as a text, with long values cut. */
export function describe(state: ReadonlyMap<string, string>): string {
  return JSON.stringify(
    [...state].sort().map(([name, value]) => `${name}=${value.slice(0, 20)}`),
  );
}
