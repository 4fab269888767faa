import type { Changes } from "../../changes/changes.ts";
import type { Configuration } from "../../config/configuration.ts";
import type { Snapshot } from "../../config/snapshot.ts";
import { TIERS } from "../../config/tier.ts";
import type { Registry } from "../../observe/registry.ts";
import type { CircuitBreaker } from "../../store/circuit_breaker.ts";
import type { Clock } from "../../values/clock.ts";
import { shortHash } from "../../values/hash.ts";
import { redactCredentials } from "../../values/redact_url.ts";
import type { HealthReport } from "../health.ts";

/** What the status is read from. */
export interface StatusParts {
  readonly configuration: Configuration;
  /** `undefined` without hot reload. */
  readonly changes: Changes | undefined;
  readonly store: CircuitBreaker;
  readonly registry: Registry;
  readonly clock: Clock;
  /** Returns the options in effect. */
  readonly settings: () => Promise<Readonly<Record<string, string>>>;
}

/** What `GET /status` shows. */
export type Status = Awaited<ReturnType<typeof createStatus>>;

/** How much is shown: of long lists, of a value or an issue, and of the events. */
const MAX_SHOWN = 300;
const MAX_LENGTH = 300;
const MAX_EVENTS = 50;

/** Creates the status without a read of the store. It has no values but those of PUBLIC variables. */
export async function createStatus(report: HealthReport, parts: StatusParts) {
  const { configuration: { snapshot, issues, loadedAt }, changes, store, registry, clock, settings } = parts;
  const { engine = "unknown", isAvailable: available, at, failure } = store.state;
  const { "": streams = [] } = registry.history("rep.streams.open");
  const { "": keys = [] } = registry.history("rep.session_keys.issued");
  return {
    ...report,
    time: toTime(clock.now()),
    issues: issues.slice(0, MAX_SHOWN).map(toMessage),
    configuration: { ...describeRole(snapshot.hash, changes), loaded: toTime(loadedAt) },
    store: { engine, available, since: toTime(at), failure: failure && toMessage(failure.message) },
    hour: { streams, keys, rejected_keys: registry.history("rep.session_keys.rejected") },
    rollout: describeRollout(changes),
    events: describeEvents(changes),
    ...describeVariables(snapshot),
    options: await settings(),
  };
}

/** A configuration is `unannounced` while the store has not answered. */
function describeRole(hash: string, changes: StatusParts["changes"]) {
  const { active = hash, announced } = changes?.rollout ?? {};
  const state = active === hash ? "active" : announced?.hash === hash ? "superseded" : "unannounced";
  return { hash: shortHash(hash), state, active: shortHash(active) } as const;
}

function describeRollout(changes: StatusParts["changes"]) {
  const { active, members = [] } = changes?.rollout ?? {};
  const newestFirst = members.toSorted((a, b) => b.rank - a.rank).slice(0, MAX_SHOWN);
  return newestFirst.map(({ hash, rank, place, state, heartbeatAt }) => {
    const role = hash === active ? "active" : "superseded";
    return { hash: shortHash(hash), rank, role, place, state, heartbeat: toTime(heartbeatAt) };
  });
}

function describeEvents(changes: StatusParts["changes"]) {
  const events = changes?.tail.newest(MAX_EVENTS) ?? [];
  return events.toReversed().map(({ id, name, value }) => {
    return { time: toTime(id / 1_000), id, name, action: value === undefined ? "delete" : "update" };
  });
}

function describeVariables({ describe, ...snapshot }: Snapshot) {
  const sources = TIERS.flatMap((tier) => [...snapshot[tier].keys()].map((name) => describe({ name, tier }).source));
  const shown = [...snapshot.public].slice(0, MAX_SHOWN);
  return {
    sources: Object.fromEntries([...Map.groupBy(sources, String)].map(([source, { length }]) => [source, length])),
    public: shown.map(([name, value]) => ({ name, value: cut(value), ...describe({ name, tier: "public" }) })),
    sensitive: [...snapshot.sensitive.keys()].slice(0, MAX_SHOWN),
    warnings: snapshot.warnings.slice(0, MAX_SHOWN).map(({ name, detail }) => ({ name, detail })),
  };
}

/** Errors of sources may contain a URL. */
function toMessage(message: string): string {
  return cut(redactCredentials(message));
}

function cut(text: string): string {
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}… (${text.length} characters)` : text;
}

function toTime(ms: number): string {
  return new Date(ms).toISOString();
}
