import type { LogEvent } from "../../src/changes/event_log.ts";
import { EventSourceClient } from "./_event_source.ts";
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
export class Client {
  readonly source: EventSourceClient;
  readonly #simulation: Simulation;
  readonly #beginning: Beginning;
  readonly #name: string;
  /** Up to this id, it may have received only the newest event of each variable. */
  #collapsedUpTo = 0;
  /** Whether its stream skips outdated events: until it has read all that there is. */
  #skipsOutdated = false;

  constructor(simulation: Simulation, name: string, beginning: Beginning) {
    this.#simulation = simulation;
    this.#beginning = beginning;
    const { query, lastEventId = "" } = beginning;
    this.#name = `${name} (${query || lastEventId || "now"})`;
    const onConnected = (lastEventId: string) => {
      simulation.note(
        `${this.#name} is connected, with Last-Event-ID "${lastEventId}"`,
      );
      // Without the header, the stream continues from a page, or from an unknown position.
      this.#skipsOutdated = lastEventId === "";
    };
    const onRead = (reading: Promise<unknown>) => this.#noteRead(reading);
    this.source = new EventSourceClient(simulation, {
      name: this.#name,
      query,
      lastEventId,
      onConnected,
      onRead,
    });
  }

  /** A stream has nothing to send if a read takes time. A client that is paused reads later than it connects. */
  #noteRead(reading: Promise<unknown>): void {
    if (!this.#skipsOutdated) return;
    const { events, time } = this.#simulation;
    const start = time.now;
    this.#collapsedUpTo = events.at(-1)?.id ?? 0;
    reading.then(() => this.#skipsOutdated &&= time.now === start, () => {});
  }

  /** Checks that it has received every event once, and that its values are the published ones. */
  verify(expected: ReadonlyMap<string, string>): void {
    const received = new Map(
      this.source.events.map((event) => [event.id, event]),
    );
    const committed = new Map(
      this.#simulation.events.map((event) => [event.id, event]),
    );
    for (const { id, name, value, type } of this.source.events) {
      const event = committed.get(id);
      const expectedType = event?.value === undefined
        ? "rep:config:delete"
        : "rep:config:update";
      if (
        event?.name !== name || event.value !== value || type !== expectedType
      ) {
        this.#fail(
          `received ${type} ${name}=${value} as event ${id}, not ${event?.name}=${event?.value}`,
        );
      }
    }
    const start = this.#beginning.cursor ??
      Number(this.source.firstEventId ?? Infinity);
    for (const event of this.#simulation.events) {
      if (
        event.id > start && !received.has(event.id) &&
        !this.#isExcused(event)
      ) {
        this.#fail(
          `has not received event ${event.id}: ${event.name}=${event.value}`,
        );
      }
    }
    this.#verifyValues(expected);
  }

  /** Whether an event need not be sent: it was deleted from the log, or outdated when the stream was opened. */
  #isExcused({ id, name }: LogEvent): boolean {
    const { deleted, events } = this.#simulation;
    return deleted.has(id) ||
      events.some((it) =>
        it.name === name && it.id > id && it.id <= this.#collapsedUpTo
      );
  }

  /**
   * A page may have values that were not published yet. If the file changes again before they are, only the process
   * that served the page knows; with another process, nothing is promised.
   */
  #verifyValues(expected: ReadonlyMap<string, string>): void {
    const { values } = this.#beginning;
    if (values === undefined) return;
    const { states, processes, ready } = this.#simulation;
    const wasPublished = states.some((state) => isEqual(state, values));
    if (!wasPublished && (processes.length > 1 || ready.length === 0)) return;
    const current = new Map(values);
    for (const { name, value } of this.source.events) {
      if (value === undefined) current.delete(name);
      else current.set(name, value);
    }
    if (!isEqual(current, expected)) {
      this.#fail(`has ${describe(current)} instead of ${describe(expected)}`);
    }
  }

  #fail(reason: string): void {
    this.#simulation.fail(`${this.#name} ${reason}`);
  }
}

/** Returns whether two states are equal. */
export function isEqual(
  a: ReadonlyMap<string, string>,
  b: ReadonlyMap<string, string>,
): boolean {
  return a.size === b.size &&
    [...a].every(([name, value]) => b.get(name) === value);
}

/** Returns a state as a text, with long values cut. */
export function describe(state: ReadonlyMap<string, string>): string {
  return JSON.stringify(
    [...state].sort().map(([name, value]) => `${name}=${value.slice(0, 20)}`),
  );
}
