import type { EpochKeys } from "../keys/epochs.ts";
import { encryptSensitive, integrityToken } from "../keys/page_crypto.ts";
import { publicHash, shortHash } from "../values/hash.ts";

/** The version of REP that the payload conforms to. */
export const PROTOCOL_VERSION = "0.1.0";

/** The configuration of a page (REP-RFC-0001 §8.1). */
export interface Payload {
  /** PUBLIC values by name. */
  readonly public: Readonly<Record<string, string>>;
  /** SENSITIVE values, encrypted; absent if there are none. */
  readonly sensitive?: string;
  readonly _meta: {
    readonly version: string;
    /** RFC 3339. */
    readonly injected_at: string;
    readonly integrity: string;
    /** The path that returns the session key; absent without SENSITIVE values. */
    readonly key_endpoint?: string;
    /** The path of the stream of changes since this payload; absent without hot reload. */
    readonly hot_reload?: string;
    /** Seconds until the payload expires; 0 means never. */
    readonly ttl: 0;
  };
}

/** The input of {@linkcode makePayload}. */
export interface PayloadInput {
  public: ReadonlyMap<string, string>;
  sensitive: ReadonlyMap<string, string>;
  keys: EpochKeys;
  /** The id of the newest event that the values contain; `undefined` without hot reload. */
  cursor: number | undefined;
  /** The path under which the endpoints are served: empty, or such as `/app`. */
  basePath: string;
  /** Milliseconds since the Unix epoch. */
  now: number;
}

/** Creates the payload for a snapshot and an epoch. */
export async function makePayload(input: PayloadInput): Promise<Payload> {
  const { keys, cursor, now, sensitive, basePath } = input;
  const integrity = await integrityToken(input.public, keys.integrityKey);
  const isSecret = sensitive.size > 0;
  return {
    public: Object.fromEntries(input.public),
    ...(isSecret
      ? {
        sensitive: await encryptSensitive(
          sensitive,
          keys.sessionKey,
          integrity,
        ),
      }
      : {}),
    _meta: {
      version: PROTOCOL_VERSION,
      injected_at: new Date(now).toISOString(),
      integrity,
      ...(isSecret
        ? { key_endpoint: `${basePath}/rep/session-key?kid=${keys.kid}` }
        : {}),
      ...(cursor === undefined
        ? {}
        : { hot_reload: await streamPath(cursor, input) }),
      ttl: 0,
    },
  };
}

/** Returns the path of a stream that begins after a cursor. The hash says which values the page has. */
async function streamPath(
  cursor: number,
  { basePath, public: values }: PayloadInput,
): Promise<string> {
  return `${basePath}/rep/changes?last_event_id=${cursor}&state=${
    shortHash(await publicHash(values))
  }`;
}
