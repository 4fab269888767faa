import type { Log, LogFields } from "../observe/log.ts";
import { shortHash } from "../values/hash.ts";
import { activeRevision, type Heartbeat, rollbackOf } from "./heartbeat.ts";
import { describeRollback, type Rollback } from "./history.ts";
import { placeOf, stateOf } from "./observation.ts";
import { findOlderStranger } from "./strangers.ts";

const APART_DETAIL =
  "a gateway on the same store has no PUBLIC variable in common with this one, and came first: until a minute after it has stopped, this one serves its own values and publishes nothing; if it is another app, give each its own --app or --kv";

/** Says which configuration a process has, and which one is active. */
export function describeConfigurations(
  hash: string,
  heartbeat: Heartbeat,
): LogFields {
  return {
    configuration: shortHash(hash),
    revision: heartbeat.self.revision,
    active: shortHash(heartbeat.decision.active),
    active_revision: activeRevision(heartbeat),
  };
}

/** Logs which configuration is active, once for each change of it or of the process's own. */
export function logChange(
  log: Log,
  heartbeat: Heartbeat,
  before: Heartbeat | undefined,
): void {
  const { self: { hash, revision }, decision } = heartbeat;
  const { role, active } = decision;
  const previous = before?.decision;
  if (role === "apart" && previous?.role !== role) logApart(log, heartbeat);
  const isSame = previous?.active === active;
  if (isSame && before?.self.hash === hash) return;
  if (role === "superseded") {
    const detail = "another configuration is active; pages and streams use it";
    const fields = describeConfigurations(hash, heartbeat);
    log.info("rep.rollout.superseded", { ...fields, detail });
  } else {
    const configuration = shortHash(hash);
    log.info("rep.rollout.active", { configuration, revision });
  }
  // A process that has just started logs no rollback of the past.
  const isNews = before === undefined ? decision.isNew : !isSame;
  const rollback = rollbackOf(heartbeat);
  if (rollback !== undefined && isNews) logRollback(log, heartbeat, rollback);
}

function logApart(log: Log, { self, observed }: Heartbeat): void {
  const stranger = findOlderStranger(self, observed.members);
  const place = stranger && placeOf(stranger);
  log.info("rep.rollout.apart", { detail: APART_DETAIL, place });
}

/**
 * If somebody has reloaded the earlier configuration, or stopped the newer one, that was intended. But an old replica
 * may have come back by itself, and the newer ones may have died.
 */
function logRollback(
  log: Log,
  heartbeat: Heartbeat,
  rollback: Rollback,
): void {
  const { active, replaced, isLeftOver, isReload } = rollback;
  const hasDied = heartbeat.observed.members.some((other) =>
    other.member.hash === replaced.hash && stateOf(other) === "dead"
  );
  const isIntended = isReload || isLeftOver && !hasDied;
  log[isIntended ? "info" : "warn"]("rep.rollout.rollback", {
    active: shortHash(active.hash),
    active_revision: activeRevision(heartbeat),
    replaces: shortHash(replaced.hash),
    replaces_revision: replaced.revision,
    detail: describeRollback(rollback),
  });
}
