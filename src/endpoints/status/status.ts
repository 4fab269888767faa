import type { Changes } from "../../changes/changes.ts";
import type { Configuration } from "../../config/configuration.ts";
import type { Snapshot } from "../../config/snapshot.ts";
import type { Epochs } from "../../keys/epochs.ts";
import type { Registry } from "../../observe/registry.ts";
import type { CircuitBreaker } from "../../store/circuit_breaker.ts";
import type { Clock } from "../../values/clock.ts";
import { shortHash } from "../../values/hash.ts";
import { redactCredentials } from "../../values/redact_url.ts";
import type { HealthReport } from "../health.ts";

/** What the status is read from. */
export interface StatusParts {
  readonly report: HealthReport;
  /** The hosts under which the page is served, besides addresses and `localhost`. */
  readonly allowedHosts: readonly string[];
  readonly configuration: Configuration;
  /** `undefined` without hot reload. */
  readonly changes: Changes | undefined;
  readonly store: CircuitBreaker;
  readonly epochs: Pick<Epochs, "hasMasterKey">;
  /** The place of this process. */
  readonly instanceId: string | undefined;
  readonly registry: Registry;
  readonly clock: Clock;
  /** Returns the end of the TLS certificate, in seconds since the Unix epoch. */
  readonly certificateNotAfter: () => number | undefined;
  /** Returns the options in effect. */
  readonly settings: () => Promise<Readonly<Record<string, string>>>;
}

/** What `GET /status` shows. */
export type Status = Awaited<ReturnType<typeof createStatus>>;

/** How many items of a list, and how many characters of a text are shown. */
const MAX_SHOWN = 300;
const MAX_EVENTS = 50;

/** Creates the status without a read of the store. It has no values but those of PUBLIC variables. */
export async function createStatus(parts: StatusParts) {
  const {
    report,
    configuration: { snapshot, rejection, loadedAt },
    changes,
    store,
    registry,
    clock,
    settings,
  } = parts;
  const redact = (message: string) => cut(redactCredentials(message)); // it may contain a URL
  const notAfter = parts.certificateNotAfter();
  const { engine = "unknown", isAvailable: available, at, failure } =
    store.state;
  return {
    ...report,
    time: toTime(clock.now()),
    place: parts.instanceId,
    issues: (rejection?.issues ?? []).slice(0, MAX_SHOWN).map(redact),
    /** What is wrong between this process and others. */
    conflicts: (changes?.conflicts ?? []).map(({ detail }) => redact(detail)),
    rejected_since: rejection && toTime(rejection.since),
    configuration: {
      ...describeRole(snapshot.deployment, parts),
      loaded: toTime(loadedAt),
    },
    store: {
      engine,
      available,
      since: toTime(at),
      failure: failure && redact(failure.message),
    },
    has_master_key: parts.epochs.hasMasterKey,
    certificate_end: notAfter && toTime(1_000 * notAfter),
    hour: {
      streams: registry.history("rep.streams.open")[""] ?? [],
      keys: registry.history("rep.session_keys.issued")[""] ?? [],
      rejected_keys: registry.history("rep.session_keys.rejected"),
    },
    rollout: describeRollout(changes),
    events: describeEvents(changes),
    ...describeVariables(snapshot),
    options: await settings(),
  };
}

/** A configuration is `unannounced` if nobody has announced it before the store failed. */
function describeRole(hash: string, { changes, store }: StatusParts) {
  const { active = hash, members = [] } = changes?.rollout ?? {};
  const isKnown = store.isAvailable ||
    members.some((member) => member.hash === hash);
  const state = active === hash
    ? "active"
    : isKnown
    ? "superseded"
    : "unannounced";
  return { hash: shortHash(hash), state, active: shortHash(active) } as const;
}

function describeRollout(changes: StatusParts["changes"]) {
  const { active, members = [] } = changes?.rollout ?? {};
  return members.toSorted((a, b) => b.rank - a.rank).slice(0, MAX_SHOWN).map(
    ({ hash, heartbeatAt, ...member }) => {
      const role = hash === active ? "active" : "superseded";
      return {
        hash: shortHash(hash),
        role,
        ...member,
        heartbeat: toTime(heartbeatAt),
      };
    },
  );
}

function describeEvents(changes: StatusParts["changes"]) {
  return (changes?.tail.newest(MAX_EVENTS) ?? []).toReversed().map(
    ({ id, name, value }) => {
      return {
        time: toTime(id / 1_000),
        id,
        name,
        action: value === undefined ? "delete" : "update",
      };
    },
  );
}

function describeVariables(
  { public: publicValues, sensitive, sources, warnings, describe }: Snapshot,
) {
  return {
    sources,
    public: [...publicValues.entries().take(MAX_SHOWN)].map(([name, value]) => {
      return { name, value: cut(value), ...describe(name) };
    }),
    sensitive: [...sensitive.keys().take(MAX_SHOWN)],
    warnings: warnings.slice(0, MAX_SHOWN).map(({ name, detail }) => ({
      name,
      detail,
    })),
  };
}

function cut(text: string): string {
  return text.length > MAX_SHOWN
    ? `${text.slice(0, MAX_SHOWN)}… (${text.length} characters)`
    : text;
}

function toTime(ms: number): string {
  return new Date(ms).toISOString();
}
