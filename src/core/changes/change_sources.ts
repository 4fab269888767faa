import { readHistory } from "../config/stored/stored_variables.ts";
import type { Snapshot } from "../config/variables/snapshot.ts";
import type { LogFields } from "../observe/log.ts";
import type { Store } from "../store/store.ts";

/** As many writes as one commit contains: with more at once, the log may lack who made the oldest. */
const MAX_WRITES = 300;

/** A publication. */
interface Publication {
  readonly target: Snapshot;
  /** What was published before; empty at a start. */
  readonly before: Snapshot;
  /** Whether the target is an earlier configuration that is active again. */
  readonly isRollback: boolean;
}

/** Returns by what each variable of a publication changed, for the log. */
export async function changeSources(
  store: Pick<Store, "list">,
  { target, before, isRollback }: Publication,
): Promise<(name: string) => LogFields> {
  const known = before.newestWrite;
  const history = target.newestWrite > known
    ? await readHistory(store, MAX_WRITES, known + 1)
    : [];
  return (name) => {
    const newest = history.find((write) =>
      write.name === name && write.id <= target.newestWrite
    );
    const { by, why } = newest ?? {};
    const source = target.describe(name)?.source;
    const isRemoved = known > 0 && newest !== undefined; // at a start, nobody knows which removals are new
    if (source === "store" || isRemoved) return { source: "store", by, why };
    if (isRollback) return { source: "rollback" };
    return { source: source ?? before.describe(name)?.source };
  };
}
