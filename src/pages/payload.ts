import type { EpochKeys } from "../crypto/epochs.ts";
import { integrityToken } from "../crypto/integrity.ts";
import { encryptSensitive } from "../crypto/encrypt_sensitive.ts";

/** The version of REP that the payload follows. */
export const PROTOCOL_VERSION = "0.1.0";

/** What a page is given (REP-RFC-0001 §8.1). */
export interface Payload {
  /** PUBLIC values by name. */
  readonly public: Readonly<Record<string, string>>;
  /** SENSITIVE values, encrypted; only if there are any. */
  readonly sensitive?: string;
  readonly _meta: {
    readonly version: string;
    /** RFC 3339. */
    readonly injected_at: string;
    readonly integrity: string;
    /** Where the key is to be had; only if there is anything to open. */
    readonly key_endpoint?: string;
    /** Where changes are to be had, from this page on; only with hot reload. */
    readonly hot_reload?: string;
    /** Seconds until the payload is stale; 0 is never. */
    readonly ttl: 0;
  };
}

/** What a payload is made of. */
export interface PayloadInput {
  public: ReadonlyMap<string, string>;
  sensitive: ReadonlyMap<string, string>;
  keys: EpochKeys;
  /** The last event that the values hold already; nothing without hot reload. */
  cursor: number | undefined;
  /** Milliseconds since the Unix epoch. */
  now: number;
}

/** Makes the payload of a snapshot, for one epoch. */
export async function makePayload(input: PayloadInput): Promise<Payload> {
  const { keys, cursor, now, sensitive } = input;
  const integrity = await integrityToken(input.public, keys.integrityKey);
  const isSecret = sensitive.size > 0;
  return {
    public: Object.fromEntries(input.public),
    ...(isSecret ? { sensitive: await encryptSensitive(sensitive, { key: keys.blobKey, integrity }) } : {}),
    _meta: {
      version: PROTOCOL_VERSION,
      injected_at: new Date(now).toISOString(),
      integrity,
      ...(isSecret ? { key_endpoint: `/rep/session-key?kid=${keys.kid}` } : {}),
      ...(cursor === undefined ? {} : { hot_reload: `/rep/changes?last_event_id=${cursor}` }),
      ttl: 0,
    },
  };
}
