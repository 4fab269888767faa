import type { AddonParts, SeenChanges } from "../../core/addon.ts";
import type { HealthReport } from "../../core/endpoints/health.ts";
import type { Certificate } from "../certificate_watch.ts";
import type { Registry } from "../metrics/registry.ts";
import {
  isHidden,
  type Snapshot,
} from "../../core/config/variables/snapshot.ts";
import { describeRollback } from "../../core/rollout/history.ts";
import { shortHash } from "../../core/values/hash.ts";
import { formatTime } from "../../core/values/units.ts";
import { redactCredentials } from "../../core/values/urls.ts";

/** What the status shows besides the parts of the gateway. */
export interface StatusOptions {
  /** The hosts for which the page is served, in addition to addresses and `localhost`. */
  readonly allowedHosts: readonly string[];
  /** The place of this process. */
  readonly instanceId: string | undefined;
  /** What this process was built from. */
  readonly revision: string | undefined;
  readonly registry: Registry;
  readonly certificate: Certificate;
  /** Returns the options in effect. */
  readonly shownOptions: () => Promise<Readonly<Record<string, string>>>;
  /** Returns the sites of this process by name, in the order in which they are shown. */
  readonly sites: (() => Readonly<Record<string, SiteReport>>) | undefined;
}

/** What is known of a site. */
export interface SiteReport
  extends
    Pick<HealthReport, "build" | "builds" | "problems" | "problems_since"> {
  readonly status: HealthReport["status"] | "rejected";
  /** Why nothing is served, or not what the files say. */
  readonly issues: readonly string[] | undefined;
  readonly rejected_since: string | undefined;
}

/** What `GET /status` shows. */
export type Status = Awaited<ReturnType<typeof createStatus>>;

/** How many items of a list, and how many characters of a text are shown. */
export const MAX_SHOWN = 300;
const MAX_EVENTS = 50;

/** Creates the status without a read of the store. It contains no values except those of PUBLIC variables. */
export async function createStatus(parts: AddonParts, options: StatusOptions) {
  const { configuration, changes, store } = parts;
  const { registry } = options;
  const { snapshot, rejection } = configuration;
  const { engine = "unknown", failure } = store.availability;
  const issues = (rejection?.issues ?? []).slice(0, MAX_SHOWN);
  const conflicts = changes?.rollout.conflicts.ongoing ?? [];
  const notAfter = options.certificate.notAfter();
  const certificateRejection = options.certificate.rejection();
  return {
    ...parts.health.report(),
    time: formatTime(parts.clock.now()),
    place: options.instanceId,
    issues: issues.map(toMessage),
    /** What is wrong between this process and others. */
    conflicts: conflicts.map(({ detail }) => toMessage(detail)),
    rejected_since: rejection && formatTime(rejection.since),
    configuration: {
      ...describeRole(snapshot.configurationHash, parts, options),
      loaded: formatTime(configuration.changedAt),
      ...configuration.digests,
    },
    store: {
      engine,
      available: store.isAvailable,
      since: formatTime(store.availability.at),
      failure: failure && toMessage(failure.message),
    },
    has_master_key: parts.epochs.hasMasterKey,
    certificate_end: notAfter && formatTime(1_000 * notAfter),
    certificate_rejection: certificateRejection &&
      toMessage(certificateRejection.detail),
    streams: registry.values("rep.streams.open")[""],
    keys: registry.values("rep.session_keys.issued")[""],
    rejected_keys: registry.values("rep.session_keys.rejected"),
    rollout: describeRollout(changes),
    events: describeEvents(changes, snapshot),
    sites: options.sites && describeSites(options.sites()),
    ...describeVariables(snapshot),
    options: await options.shownOptions(),
  };
}

function describeRole(
  hash: string,
  { changes, store }: AddonParts,
  { revision }: StatusOptions,
) {
  const rollout = changes?.rollout;
  const { active = hash, rollback } = rollout ?? {};
  const shown = {
    hash: shortHash(hash),
    revision,
    active: shortHash(active),
    rollback: rollback && describeRollback(rollback),
  };
  if (rollout?.active === undefined || rollout.isActive) {
    return { ...shown, state: "active", active_revision: revision } as const;
  }
  const isKnown = rollout.isAnnounced || store.isAvailable;
  const state = isKnown ? "superseded" : "unannounced"; // the store failed before it could be announced
  const active_revision = rollout.activeRevision;
  return { ...shown, state, active_revision } as const;
}

function describeRollout(changes: SeenChanges | undefined) {
  const { active, members = [] } = changes?.rollout ?? {};
  const newestFirst = members.toSorted((a, b) => b.rank - a.rank);
  return newestFirst.slice(0, MAX_SHOWN).map((member) => ({
    place: member.place,
    state: member.state,
    role: member.hash === active ? "active" : "superseded",
    version: member.version,
    build: member.build || undefined,
    hash: shortHash(member.hash),
    revision: member.revision,
    rank: member.rank,
    heartbeat: formatTime(member.heartbeatAt),
  }));
}

/** Values of a variable that is no longer PUBLIC are not shown, even if that is not published yet. */
function describeEvents(changes: SeenChanges | undefined, snapshot: Snapshot) {
  const events = changes?.tail.events ?? [];
  return events.slice(-MAX_EVENTS).toReversed().map(
    ({ id, name, value, cause }) => {
      const isEarlier = (it: typeof events[number]) =>
        it.name === name && it.id < id;
      const before = events.findLast(isEarlier)?.value;
      const shown = (text: string | undefined) =>
        text === undefined || isHidden(snapshot, name) ? undefined : cut(text);
      return {
        time: formatTime(id / 1_000),
        id,
        name,
        action: value === undefined ? "delete" : "update",
        before: shown(before),
        value: shown(value),
        by: cause?.by,
        why: cause?.why,
      };
    },
  );
}

function describeSites(sites: Readonly<Record<string, SiteReport>>) {
  const entries = Object.entries(sites);
  return Object.fromEntries(entries.map(([name, site]) => {
    const issues = site.issues?.slice(0, MAX_SHOWN).map(toMessage);
    return [name, { ...site, issues }];
  }));
}

function describeVariables(snapshot: Snapshot) {
  const { sources, sensitive } = snapshot;
  const entries = [...snapshot.public.entries().take(MAX_SHOWN)];
  const shown = entries.map(([name, value]) => {
    const description = snapshot.describe(name);
    return { name, value: cut(value), ...description };
  });
  const warnings = snapshot.warnings.slice(0, MAX_SHOWN);
  return {
    sources,
    public: shown,
    sensitive: [...sensitive.keys().take(MAX_SHOWN)],
    warnings: warnings.map(({ name, detail }) => ({ name, detail })),
  };
}

/** An error's text may contain a URL with credentials. */
function toMessage(text: string): string {
  return cut(redactCredentials(text));
}

function cut(text: string): string {
  if (text.length <= MAX_SHOWN) return text;
  return `${text.slice(0, MAX_SHOWN)}… (${text.length} characters)`;
}
