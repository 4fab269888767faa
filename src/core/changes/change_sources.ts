import { readHistory } from "../config/stored/stored_variables.ts";
import { EMPTY_SNAPSHOT, type Snapshot } from "../config/variables/snapshot.ts";
import type { LogFields } from "../observe/log.ts";
import type { Store } from "../store/store.ts";
import type { ChangeCause } from "./event_log.ts";

/** As many writes as one commit contains: with more at once, the log may lack who made the oldest. */
const MAX_WRITES = 300;

/** The longest texts of an event, as of a write. */
const MAX_BY = 128;
const MAX_WHY = 512;

/** A publication. */
interface Publication {
  readonly target: Snapshot;
  /** What was published before; empty at a start. */
  readonly before: Snapshot;
  /** Whether the target is an earlier configuration that is active again. */
  readonly isRollback: boolean;
  /** Where this process runs. */
  readonly place: string;
}

/** By what a variable changed. */
interface ChangeSource {
  readonly logged?: LogFields;
  /** For its event, which has a reason even if nobody gave one. */
  readonly cause?: ChangeCause;
}

/** Returns by what a variable changed. */
export type SourceOf = (name: string) => ChangeSource;

/** Returns by what each variable of a publication changed. */
export async function changeSources(
  store: Pick<Store, "list">,
  { target, before, isRollback, place }: Publication,
): Promise<SourceOf> {
  const known = before.newestWrite;
  const history = target.newestWrite > known
    ? await readHistory(store, MAX_WRITES, known + 1)
    : [];
  const kind = before === EMPTY_SNAPSHOT ? "start" : "reload";
  const by = cut(place, MAX_BY);
  const ownChange = (source: string | undefined, why: string) => ({
    logged: { source },
    cause: { by, why: cut(why, MAX_WHY) },
  });
  return (name) => {
    const newest = history.find((write) => write.name === name); // one that the target lacks makes the commit fail
    const { by, why, command } = newest ?? {};
    const current = target.describe(name)?.source;
    const isRemoved = known > 0 && newest !== undefined; // at a start, nobody knows which removals are new
    if (current === "store" || isRemoved) {
      const logged = { source: "store", by, why };
      return { logged, cause: { by, why: why ?? command } };
    }
    if (isRollback) return ownChange("rollback", "rollback");
    const source = current ?? before.describe(name)?.source;
    return ownChange(
      source,
      source === undefined ? kind : `${kind}: ${source}`,
    );
  };
}

/** Without half a character at its end, which PostgreSQL does not store. */
function cut(text: string, length: number): string {
  return text.slice(0, length).toWellFormed();
}
