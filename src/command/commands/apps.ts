import { UsageError } from "../options/read_options.ts";
import {
  listVariables,
  newestWrite,
} from "../../core/config/stored/stored_variables.ts";
import { MEMBERS } from "../../core/rollout/heartbeat.ts";
import type { Member } from "../../core/rollout/observation.ts";
import { indexedApps } from "../../core/store/app_index.ts";
import { storeOfApp } from "../../core/store/app_store.ts";
import type { Store } from "../../core/store/store.ts";
import { formatTime } from "../../core/values/units.ts";

/** An app of a store. */
interface App {
  readonly name: string;
  /** When it was last started or written, or a gateway of it last sent a heartbeat. */
  readonly last_seen: string;
  /** The number of its variables in the store. */
  readonly variables: number;
}

/** Describes the apps of a store, one after the other: there may be a thousand. */
export async function describeApps(root: Store): Promise<App[]> {
  const apps: App[] = [];
  for (const { name, at } of await indexedApps(root)) {
    const store = storeOfApp(root, name);
    const members = await store.list<Member>(MEMBERS);
    const heartbeats = members.map(({ value }) => value.heartbeatAt);
    const last_seen = formatTime(Math.max(at, ...heartbeats));
    const variables = (await listVariables(store)).length;
    apps.push({ name, last_seen, variables });
  }
  return apps;
}

/** How many names a message lists. */
const MAX_NAMES = 20;

/**
 * Checks that a name of an app is not misspelled.
 *
 * @throws {UsageError} If the store has other apps, and nothing of this one.
 */
export async function checkKnown(app: string, root: Store): Promise<void> {
  const names = (await indexedApps(root)).map(({ name }) => name);
  if (names.length === 0 || names.includes(app)) return;
  const store = storeOfApp(root, app); // versions without an index may have used it
  const members = await store.list(MEMBERS, { limit: 1 });
  if (members.length > 0 || await newestWrite(store) > 0) return;
  const known = names.slice(0, MAX_NAMES).join(", ");
  const more = names.length > MAX_NAMES ? ", …" : "";
  throw new UsageError(
    `Cannot set variables of the app ${app}, of which the store has nothing: expected one of ${known}${more}, or --new-app for a new one`,
  );
}
