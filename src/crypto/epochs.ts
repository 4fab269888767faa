import type { Clock } from "../clock.ts";
import { BLOB_KEY_INFO, deriveKey, INTEGRITY_KEY_INFO } from "./hkdf.ts";

/** Settings of {@linkcode createEpochs}. */
export interface EpochOptions {
  clock: Clock;
  /** The master secret; asked for until it is there, since the store that keeps it may be down, and then no more. */
  masterKey: () => Promise<Uint8Array<ArrayBuffer>>;
  /** How long an epoch lasts. */
  rotationMs: number;
  /** How long a page can be opened after its epoch has ended: the last page of an epoch, too, has all of this time. */
  retentionMs: number;
}

/** The keys of one epoch. */
export interface EpochKeys {
  /** The epoch's name: the second it began at. */
  readonly kid: string;
  /** Opens the SENSITIVE values of the epoch's pages. */
  readonly blobKey: Uint8Array<ArrayBuffer>;
  /** Signs the PUBLIC values of the epoch's pages. */
  readonly integrityKey: Uint8Array<ArrayBuffer>;
}

/** What a client asks a key for: `valid`, or why it cannot have one. */
export type KidCheck = "valid" | "malformed" | "expired";

/** The keys of all epochs: any process with the same master secret derives the same ones. */
export interface Epochs {
  /** The name of the epoch that is now. */
  current(): string;
  /** Whether there is a key for an epoch. */
  checkKid(kid: string): KidCheck;
  /** The keys of an epoch. */
  keys(kid: string): Promise<EpochKeys>;
}

/** How far ahead another process's clock may be. */
const MAX_SKEW_MS = 60_000;
/** Ten digits last until the year 2286. */
const KID = /^[1-9]\d{0,10}$/;
/** Everybody who opens pages of the last hours at the default rotation. */
const MAX_CACHED = 200;

/** Makes the keys' calendar. */
export function createEpochs({ clock, masterKey, rotationMs, retentionMs }: EpochOptions): Epochs {
  const cache = new Map<string, Promise<EpochKeys>>();
  let master: Promise<Uint8Array<ArrayBuffer>> | undefined;

  function askMaster(): Promise<Uint8Array<ArrayBuffer>> {
    return master ??= masterKey().catch((error) => {
      master = undefined;
      throw error;
    });
  }

  function keys(kid: string): Promise<EpochKeys> {
    const cached = cache.get(kid);
    if (cached) return cached;
    const derived = derive(kid);
    cache.set(kid, derived);
    derived.catch(() => cache.delete(kid)); // so that the next one asks again; whoever asked now is told
    const [oldest] = cache.keys();
    if (cache.size > MAX_CACHED && oldest !== undefined) cache.delete(oldest);
    return derived;
  }

  async function derive(kid: string): Promise<EpochKeys> {
    const secret = await askMaster();
    const blobKey = await deriveKey(secret, { salt: kid, info: BLOB_KEY_INFO });
    const integrityKey = await deriveKey(secret, { salt: kid, info: INTEGRITY_KEY_INFO });
    return { kid, blobKey, integrityKey };
  }

  return {
    current: () => String(Math.max(1, Math.floor(clock.now() / rotationMs) * rotationMs / 1_000)),
    checkKid(kid) {
      const startMs = Number(kid) * 1_000;
      if (!KID.test(kid) || startMs > clock.now() + MAX_SKEW_MS) return "malformed";
      return startMs + rotationMs <= clock.now() - retentionMs ? "expired" : "valid";
    },
    keys,
  };
}
