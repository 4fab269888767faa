import { BoundedMap } from "../bounded_map.ts";
import type { Clock } from "../clock.ts";
import { BLOB_KEY_INFO, deriveKey, INTEGRITY_KEY_INFO } from "./hkdf.ts";

/** Options of {@linkcode Epochs}. */
export interface EpochOptions {
  clock: Clock;
  /** Loads the master secret. Called again until it succeeds, since the store that keeps it may be unavailable. */
  masterKey: () => Promise<Uint8Array<ArrayBuffer>>;
  /** How long an epoch lasts, in milliseconds. */
  rotationMs: number;
  /** How long a page can be decrypted after its epoch has ended, in milliseconds. */
  retentionMs: number;
}

/** The keys of one epoch, 32 bytes each. */
export interface EpochKeys {
  /** The id of the epoch: the Unix time at which it began, in seconds. */
  readonly kid: string;
  /** Encrypts the SENSITIVE values of the epoch's pages. */
  readonly blobKey: Uint8Array<ArrayBuffer>;
  /** Signs the PUBLIC values of the epoch's pages. */
  readonly integrityKey: Uint8Array<ArrayBuffer>;
}

/** Whether an epoch's keys are available, or why not. */
type KidCheck = "valid" | "malformed" | "expired";

/** How far ahead of ours another process's clock may be. */
const MAX_SKEW_MS = 60_000;
/** Seconds since the epoch; ten digits last until the year 2286. */
const KID = /^[1-9]\d{0,10}$/;
/** With the default options, pages can name 145 epochs: 24 hours at one every 10 minutes, and the current one. */
const MAX_CACHED_EPOCHS = 200;

/**
 * Derives the keys of each epoch from the master secret. All processes with the same master secret derive the same
 * keys, so any of them can decrypt the pages of the others.
 */
export class Epochs {
  readonly #options: EpochOptions;
  readonly #keys = new BoundedMap<Promise<EpochKeys>>(MAX_CACHED_EPOCHS);
  #masterKey: Promise<Uint8Array<ArrayBuffer>> | undefined;

  constructor(options: EpochOptions) {
    this.#options = options;
  }

  /** Returns the `kid` of the current epoch. */
  current(): string {
    const { clock, rotationMs } = this.#options;
    return String(Math.max(1, Math.floor(clock.now() / rotationMs) * rotationMs / 1_000));
  }

  /** Checks whether the keys of an epoch may be handed out. */
  checkKid(kid: string): KidCheck {
    const { clock, rotationMs, retentionMs } = this.#options;
    const startMs = Number(kid) * 1_000;
    if (!KID.test(kid) || startMs > clock.now() + MAX_SKEW_MS) return "malformed";
    return startMs + rotationMs <= clock.now() - retentionMs ? "expired" : "valid";
  }

  /**
   * Returns the keys of an epoch, whose `kid` the caller has checked. It rejects with the error of `masterKey`, if that
   * fails; the next call tries again.
   */
  keys(kid: string): Promise<EpochKeys> {
    const cached = this.#keys.get(kid);
    if (cached) return cached;
    const keys = this.#deriveKeys(kid);
    this.#keys.set(kid, keys);
    keys.catch(() => this.#keys.delete(kid)); // the caller handles the rejection
    return keys;
  }

  async #deriveKeys(kid: string): Promise<EpochKeys> {
    const masterKey = await this.#loadMasterKey();
    const blobKey = await deriveKey(masterKey, { salt: kid, info: BLOB_KEY_INFO });
    const integrityKey = await deriveKey(masterKey, { salt: kid, info: INTEGRITY_KEY_INFO });
    return { kid, blobKey, integrityKey };
  }

  #loadMasterKey(): Promise<Uint8Array<ArrayBuffer>> {
    return this.#masterKey ??= this.#options.masterKey().catch((error) => {
      this.#masterKey = undefined;
      throw error;
    });
  }
}
