import { retryConflicts, type RetryOptions } from "../store/retry.ts";
import type { Check } from "../store/store.ts";
import type { Change, EventLog, LogEvent, PublicState } from "./event_log.ts";

/** What the public state is to be. */
export interface PublicTarget {
  readonly public: ReadonlyMap<string, string>;
  readonly sensitive: ReadonlyMap<string, string>;
  readonly server: ReadonlySet<string>;
}

/** What publishing did. */
export interface Publication {
  /** What was added to the log. */
  readonly events: readonly LogEvent[];
  /** Up to this id, the log holds nothing that the target does not. */
  readonly head: number;
}

/** What {@linkcode publish} needs. */
export interface PublishOptions extends RetryOptions {
  /**
   * Asked before each try whether the target may be published.
   *
   * @returns What must still be so when it is; nothing if it may not.
   */
  fencingChecks?: () => Promise<readonly Check[] | undefined>;
}

/**
 * Makes the public state in the store equal to a target, and says what that took.
 *
 * It compares with the store and not with what this process remembers: so a change made while the gateway was down is
 * published at its start, and of several replicas that see the same change, one publishes it.
 *
 * @returns Nothing if the target may not be published.
 * @throws {StoreUnavailableError} If the store does not answer.
 */
export async function publish(
  target: PublicTarget,
  log: EventLog,
  { fencingChecks = () => Promise.resolve([]), ...options }: PublishOptions,
): Promise<Publication | undefined> {
  const { publication } = await retryConflicts(async () => {
    const checks = await fencingChecks();
    if (checks === undefined) return { publication: undefined };
    const publication = await tryToPublish(target, log, checks);
    return publication && { publication };
  }, options);
  return publication;
}

async function tryToPublish(
  target: PublicTarget,
  log: EventLog,
  checks: readonly Check[],
): Promise<Publication | undefined> {
  const state = await forgetLeaving(target, log);
  const changes = difference(state, target);
  if (changes.length === 0) return { events: [], head: state.head?.value.id ?? 0 };
  const events = await log.append(changes, state, checks);
  if (events === undefined) return undefined;
  await log.trim();
  return { events, head: events.at(-1)?.id ?? 0 };
}

/** First of all, what must not be told any more goes: should the process end before the rest, it is done again. */
async function forgetLeaving(target: PublicTarget, log: EventLog): Promise<PublicState> {
  for (;;) {
    const state = await log.state();
    const leaving = difference(state, target).filter(({ leavesPublic }) => leavesPublic).map(({ name }) => name);
    if (!await log.redact(new Set(leaving), state)) return state;
  }
}

/** What has to change for the state to become the target (spec, Stream events): updates first, then deletes, by name. */
export function difference({ events }: PublicState, target: PublicTarget): Change[] {
  const updates = [...target.public]
    .filter(([name, value]) => events.get(name)?.value !== value)
    .map(([name, value]) => ({ name, value }));
  const deletes = [...events.values()]
    .filter(({ name, value }) => value !== undefined && !target.public.has(name))
    .map(({ name }) => ({ name, ...(leavesTier(name, target) ? { leavesPublic: true } : {}) }));
  return [...updates.sort(byName), ...deletes.sort(byName)];
}

function leavesTier(name: string, { sensitive, server }: PublicTarget): boolean {
  return sensitive.has(name) || server.has(name);
}

function byName(a: Change, b: Change): number {
  return a.name < b.name ? -1 : 1;
}
