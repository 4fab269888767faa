import type { Clock } from "../clock.ts";
import type { EpochKeys, Epochs } from "../crypto/epochs.ts";
import type { Log } from "../log.ts";
import type { Snapshot } from "../variables/snapshot.ts";
import { type ConfigScript, renderConfigScript } from "./config_script.ts";
import { makePayload } from "./payload.ts";

/** What pages are built from. */
export interface PageConfiguration {
  readonly snapshot: Pick<Snapshot, "public" | "sensitive">;
  /** The id of the newest event that the snapshot contains. */
  readonly cursor: number;
}

/** What {@linkcode createConfigScripts} needs. */
export interface ConfigScriptOptions {
  activeConfiguration: () => PageConfiguration;
  hotReload: boolean;
  epochs: Epochs;
  clock: Clock;
  log: Log;
}

/** Gives the tag for a page that is delivered now. */
export type ConfigScripts = () => Promise<ConfigScript>;

/** Makes the tag once for each snapshot, cursor and epoch, and gives it to all pages. */
export function createConfigScripts(
  { activeConfiguration, hotReload, epochs, clock, log }: ConfigScriptOptions,
): ConfigScripts {
  let made:
    | { snapshot: PageConfiguration["snapshot"]; cursor: number; kid: string; tag: Promise<ConfigScript> }
    | undefined;

  return () => {
    const { snapshot, cursor } = activeConfiguration();
    const kid = epochs.current();
    if (made?.snapshot === snapshot && made.cursor === cursor && made.kid === kid) return made.tag;
    const tag = make(snapshot, cursor, kid);
    made = { snapshot, cursor, kid, tag };
    return tag;
  };

  async function make(snapshot: PageConfiguration["snapshot"], cursor: number, kid: string): Promise<ConfigScript> {
    const keys = await keysOf(kid);
    const sensitive = keys === undefined ? NOTHING : snapshot.sensitive;
    const input = { public: snapshot.public, sensitive, keys: keys ?? substitute(kid), now: clock.now() };
    return renderConfigScript(await makePayload({ ...input, cursor: hotReload ? cursor : undefined }));
  }

  /** Without the master secret, which the store keeps, pages have their PUBLIC values all the same. */
  async function keysOf(kid: string): Promise<EpochKeys | undefined> {
    try {
      return await epochs.keys(kid);
    } catch (error) {
      made = undefined; // the next page asks again
      log.error("rep.page.without_sensitive", { detail: `the master key is out of reach: ${error}` });
      return undefined;
    }
  }
}

const NOTHING: ReadonlyMap<string, string> = new Map();

/** An integrity key for this one payload: nobody checks the token but whoever made it. */
function substitute(kid: string): EpochKeys {
  const key = () => crypto.getRandomValues(new Uint8Array(32));
  return { kid, blobKey: key(), integrityKey: key() };
}
