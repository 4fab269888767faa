import type { Clock } from "../values/clock.ts";
import {
  isLive,
  MEMBER_HEARTBEAT_MS,
  type Observation,
  stateOf,
} from "./observation.ts";

/** Options of {@linkcode Builds}. */
interface BuildsOptions {
  /** Returns the ID of the build that this process delivers; empty if it delivers none. */
  readonly own: () => string;
  /** How many processes have an entry for each build. */
  readonly maxRepresentatives: number;
  readonly clock: Pick<Clock, "monotonic">;
}

/** How long the builds have to be the same until several of them are no update: a canary may stay for days. */
const SETTLED_MS = 300_000;
/** After an outage, all other processes have announced what they deliver by then. */
const ANNOUNCED_MS = 2 * MEMBER_HEARTBEAT_MS;

/**
 * Which builds processes deliver, and which one a page is told of. Builds have no order, so none is "newer": a page is
 * told of another one if no process that may still answer requests delivers the page's own, so that a reload cannot bring
 * it again.
 */
export class Builds {
  readonly #options: BuildsOptions;
  /** The other members, as they were observed last; `undefined` until this process is one of them. */
  #others: readonly Observation[] | undefined;
  /** The delivered builds, and since when they have been the same, by the monotonic clock. */
  #delivered = { names: "", since: 0 };
  /** When all others will have announced their builds, by the monotonic clock. */
  #announcedAt = 0;

  constructor(options: BuildsOptions) {
    this.#options = options;
  }

  /** Called after each look at the members, with the others; without them, if this process is no member. */
  follow(others: readonly Observation[] | undefined): void {
    this.#others = others;
    const names = this.names.join(" ");
    if (names === this.#delivered.names) return;
    this.#delivered = { names, since: this.#options.clock.monotonic() };
  }

  /** Called when no process may have been able to announce its build. */
  noteOutage(): void {
    this.#announcedAt = this.#options.clock.monotonic() + ANNOUNCED_MS;
  }

  /** The builds that processes may deliver now. During an update, there are several. */
  get names(): string[] {
    const known = new Set(this.#answering.map((build) => build ?? ""));
    return [...known].filter((build) => build !== "").sort();
  }

  /**
   * Returns the build that a page is told of. While a reload may bring one of two, because of an update, the page is told
   * at the end: it might be told of one, and get the other.
   *
   * @returns `undefined` if a process may deliver the page's own build, if no process delivers any, or if nobody knows:
   * after an outage, and while a process of a version lives that announces no build.
   */
  replacementOf(build: string): string | undefined {
    const { own, maxRepresentatives, clock } = this.#options;
    const now = clock.monotonic();
    if (this.#others === undefined || now < this.#announcedAt) return undefined;
    const answering = this.#answering;
    if (answering.includes(build) || answering.includes(undefined)) {
      return undefined;
    }
    const isUpdate = now - this.#delivered.since < SETTLED_MS;
    if (this.names.length > 1 && isUpdate) return undefined;
    const known = this.#others.filter(({ member }) => member.build === build);
    // There may be processes without an entry, which become representatives within a period.
    const isFull = known.length >= maxRepresentatives;
    if (isFull && known.some(hasJustChanged)) return undefined;
    return own() || this.names[0];
  }

  /** The builds of all processes that may answer requests, as their entries name them. */
  get #answering(): (string | undefined)[] {
    const others = (this.#others ?? []).filter(mayAnswer);
    return [this.#options.own(), ...others.map(({ member }) => member.build)];
  }
}

/** A process that stops answers requests until its port is closed. */
function mayAnswer(observation: Observation): boolean {
  return isLive(observation) || stateOf(observation) === "stopping";
}

function hasJustChanged({ member, unchangedPeriods }: Observation): boolean {
  return !member.wasFoundDead && unchangedPeriods < 1;
}
