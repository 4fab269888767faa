import type { RetryOptions } from "../../core/store/commits.ts";
import type { Log } from "../../core/observe/log.ts";
import { OPERATION_TIMEOUT_MS } from "../../core/store/store.ts";
import { sleep, waitAtMost } from "../../core/values/clock.ts";
import type { PostgresPool } from "./connection.ts";

/** What is called when a key may have been written. */
export interface Watch {
  /** The key as `commit_entries()` announces it. */
  readonly name: string;
  readonly hint: () => void;
}

/** What {@linkcode receiveNotifications} depends on. */
export interface NotificationOptions extends RetryOptions {
  readonly log: Log;
}

/** How long the connection for notifications pauses after it was lost; half of it is random. */
const LISTEN_PAUSE_MS = 1_000;
/** How long to wait for another connection; at a connection limit, there may be none. */
const SEND_TIMEOUT_MS = 1_000;
/** Twice as long as a statement may take: a notification waits for the end of the statement on its connection. */
const ECHO_TIMEOUT_MS = 2 * OPERATION_TIMEOUT_MS;
const LOST =
  "a notification did not come back, so changes by other processes are found by polling, every second: expected a direct connection, or a pooler in session mode";

/**
 * Receives the notifications about commits of all processes, over a connection of the pool. Listens again whenever it is
 * lost, until the pool is closed. Meanwhile, callers poll.
 */
export async function receiveNotifications(
  pool: PostgresPool,
  channel: string,
  watches: ReadonlySet<Watch>,
  options: NotificationOptions,
): Promise<void> {
  const { clock, random } = options;
  const signal = pool.closed;
  while (!signal.aborted) {
    await receive(pool, channel, watches, options).catch(() => {}); // statements report an outage
    const pause = LISTEN_PAUSE_MS * (0.5 + 0.5 * random());
    await sleep(pause, clock, { signal, isBackground: true });
  }
}

/** Resolves when the connection has ended. It executes statements of the pool as well. */
async function receive(
  pool: PostgresPool,
  channel: string,
  watches: ReadonlySet<Watch>,
  options: NotificationOptions,
): Promise<void> {
  const client = await pool.connect();
  const ended = new Promise<void>((resolve) => client.on("end", resolve));
  const echo = crypto.randomUUID();
  const echoed = new AbortController();
  client.on("notification", ({ payload }) => {
    if (payload === echo) echoed.abort();
    for (const { name, hint } of watches) if (name === payload) hint();
  });
  try {
    await client.query(`LISTEN ${channel}`);
  } catch (error) {
    client.release(true);
    throw error;
  }
  for (const { hint } of watches) hint(); // what was written while it was not connected
  const sending = pool.query(`SELECT pg_notify('${channel}', '${echo}')`);
  // This connection stays taken, since a pooler might execute both of its statements on the same one of its own.
  await waitAtMost(SEND_TIMEOUT_MS, sending, options.clock);
  client.release();
  void warnUnlessEchoed(sending, echoed.signal, options);
  await ended;
  echoed.abort();
}

/**
 * Warns if a notification that this process sends to itself does not come back, as through a pooler in transaction mode.
 * Once for each connection is enough, since what lies between does not change.
 */
async function warnUnlessEchoed(
  sending: Promise<unknown>,
  echoed: AbortSignal,
  { clock, log }: NotificationOptions,
): Promise<void> {
  try {
    await sending;
  } catch {
    return; // other statements report an outage
  }
  const options = { signal: echoed, isBackground: true };
  await sleep(ECHO_TIMEOUT_MS, clock, options);
  if (!echoed.aborted) log.warn("rep.store.no_notifications", { detail: LOST });
}
