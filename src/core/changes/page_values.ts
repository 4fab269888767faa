import { isHidden, type Snapshot } from "../config/variables/snapshot.ts";
import type { PageValues } from "../pages/config_script.ts";
import type { Rollout } from "../rollout/rollout.ts";
import type { Tail } from "./tail.ts";

interface PublishedPageValuesOptions {
  readonly rollout: Pick<Rollout, "role">;
  readonly tail: Pick<Tail, "head" | "publicValues">;
}

/** What the published values of pages depend on, besides the newest event. */
interface PublishedFor {
  readonly own: Snapshot;
  readonly isSuperseded: boolean;
}

/**
 * What pages are built from:
 *
 * | this process                                     | PUBLIC values | without the names that are                             |
 * | ------------------------------------------------ | ------------- | ------------------------------------------------------ |
 * | has the active configuration, or still joins     | the published | SENSITIVE or SERVER here                                |
 * | is superseded: another configuration is active   | the published |                                                        |
 * | stands apart from another app                    | its own       |                                                        |
 * | knows no event: none exists, or none was read    | its own       |                                                        |
 *
 * The published values may be newer than this process's own, while it still reads what another replica has published:
 * pages do not go back in time. They may be older while an edit waits, also a removal: nobody serves values that the
 * other replicas do not have. With its own values, a page gets a stream that begins with the whole published state.
 *
 * A superseded process leaves nothing out: a page that lacked a value of the active configuration, but has the id of the
 * newest event, would never get it. It stays superseded until it has announced what it reads next. That reveals nothing
 * of this process, whose name may be SERVER here: the value is that of a process in which the name is PUBLIC, and all
 * streams have it as well.
 *
 * SENSITIVE values are always the process's own: the store must not contain any. So until a superseded process is
 * replaced, its pages may have PUBLIC values of the new configuration and SENSITIVE values of the old one. With the
 * process's own PUBLIC values as well, a page would change from replica to replica, and its stream would bring the
 * new values anyway.
 */
export class PublishedPageValues {
  readonly #options: PublishedPageValuesOptions;
  /** They stay the same object until any of it changes, so that a page needs no comparison of all values. */
  #published: PageValues & PublishedFor | undefined;

  constructor(options: PublishedPageValuesOptions) {
    this.#options = options;
  }

  /** Returns the values of a page that is sent now by a process with this snapshot. */
  current(own: Snapshot): PageValues {
    const { rollout, tail } = this.#options;
    const cursor = tail.head;
    const { role } = rollout;
    if (role === "apart" || cursor === 0) return { values: own, cursor: 0 };
    const isSuperseded = role === "superseded";
    const published = this.#published;
    const isCurrent = published?.cursor === cursor && published.own === own &&
      published.isSuperseded === isSuperseded;
    if (isCurrent) return published;
    const visible = [...tail.publicValues].filter(([name]) =>
      isSuperseded || !isHidden(own, name)
    );
    const values = { public: new Map(visible), sensitive: own.sensitive };
    this.#published = { own, isSuperseded, values, cursor };
    return this.#published;
  }
}
