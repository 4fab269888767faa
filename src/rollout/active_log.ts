import type { Log } from "../observe/log.ts";
import { shortHash } from "../values/hash.ts";

/** Which configuration is active, as a process knows it. */
interface RolloutState {
  /** The hash of the process's configuration. */
  readonly hash: string | undefined;
  /** The hash of the active one. */
  readonly active: string | undefined;
  readonly members: readonly {
    readonly hash: string;
    readonly state: string;
    readonly place: string;
  }[];
}

/** Logs which configuration is active, once for each change of it or of the process's own. */
export class ActiveLog {
  readonly #log: Log;
  #hash: string | undefined;
  #active: string | undefined;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Logs the state, unless the log says so already. */
  note({ hash, active, members }: RolloutState): void {
    if (hash === undefined || active === undefined) return;
    if (hash === this.#hash && active === this.#active) return;
    const replaced = hash === this.#hash ? this.#active : undefined;
    this.#hash = hash;
    this.#active = active;
    const configuration = shortHash(hash);
    if (hash !== active) {
      this.#log.info("rep.rollout.superseded", {
        configuration,
        active: shortHash(active),
        detail: "another configuration is active; pages and streams use it",
      });
      return;
    }
    const dead = members.filter((member) =>
      member.hash === replaced && member.state === "dead"
    );
    if (replaced === undefined || dead.length === 0) {
      this.#log.info("rep.rollout.active", { configuration });
      return;
    }
    // Nobody has decided to return to an older configuration: the processes of the newer one are gone.
    const places = dead.map(({ place }) => place).join(", ");
    this.#log.warn("rep.rollout.active", {
      configuration,
      replaces: shortHash(replaced),
      detail:
        `the processes of the configuration that it replaces no longer send heartbeats: ${places}`,
    });
  }
}
