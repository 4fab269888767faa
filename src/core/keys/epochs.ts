import { type Clock, MAX_CLOCK_SKEW_MS } from "../values/clock.ts";
import { SizeBoundedCache } from "../values/size_bounded_cache.ts";
import { toUtf8 } from "../values/utf8.ts";

/** The purpose of the session key, which encrypts SENSITIVE values (REP-RFC-0001 §8.2.1). */
export const SESSION_KEY_INFO = "rep-blob-encryption-v1";
/** The purpose of the key that authenticates PUBLIC values. */
const INTEGRITY_KEY_INFO = "rep-integrity-v1";
/** The purpose of the key from which all keys of an app with a name are derived. */
const APP_INFO = "rep-app-v1";
/** The purpose of the bytes that identify a master key without revealing it. */
export const FINGERPRINT_INFO = "rep-master-key-fingerprint-v1";
/** The purpose of {@linkcode Epochs.digest}. */
const DIGEST_INFO = "rep-digest-v1";

/** Options of {@linkcode Epochs}. */
export interface EpochOptions {
  clock: Clock;
  /** The name of the app: apps with the same master key have different keys. @default {none} */
  app?: string | undefined;
  /**
   * Loads the master key. Called again until it succeeds, since the store that keeps it may be unavailable, and then
   * with the key that it returned, so that a store that has lost it gets it back.
   */
  masterKey: (
    known?: Uint8Array<ArrayBuffer>,
  ) => Promise<Uint8Array<ArrayBuffer>>;
  /** How long an epoch lasts, in milliseconds. */
  rotationMs: number;
  /** How long a page can be decrypted after its epoch has ended, in milliseconds. */
  retentionMs: number;
}

/** The keys of one epoch, 32 bytes each. */
export interface EpochKeys {
  /**
   * The id of the keys, such as `1700000400-0f1e2d3c4b5a`: the id of the epoch, and a fingerprint of the master key.
   * With the epoch alone, a page from before a restart without a persistent store would get a key of another master
   * key.
   */
  readonly kid: string;
  /** Encrypts the SENSITIVE values of the epoch's pages, whose scripts ask for it. */
  readonly sessionKey: Uint8Array<ArrayBuffer>;
  /** Authenticates the PUBLIC values of the epoch's pages. */
  readonly integrityKey: Uint8Array<ArrayBuffer>;
}

/** Whether an epoch's keys are available, or why not, as far as that is known without the master key. */
type KidCheck = "valid" | "malformed" | "expired";

/**
 * Why the keys that a page names cannot be derived: they are of another master key; or their epoch lies further in the
 * future than clocks may differ, so the clock of the process that made the page, or of this one, is wrong.
 */
export type KidProblem = "unknown_master_key" | "clock_skew";

/** The epoch, which is Unix time in seconds with eleven digits from the year 2286, and the fingerprint. */
const KID = /^([1-9]\d{0,10})-[0-9a-f]{12}$/;
/** 48 bits: among a million master keys, two have the same fingerprint with a probability of 0.2 %. */
const FINGERPRINT_BYTES = 6;
/** With the default options, pages can name 145 epochs: one every 10 minutes for 24 hours, and the current one. */
const MAX_CACHED_EPOCHS = 200;

/**
 * Derives the keys of each epoch from the master key. All processes with the same master key derive the same
 * keys, so any of them can decrypt the pages of the others.
 */
export class Epochs {
  readonly #options: EpochOptions;
  readonly #keys = new SizeBoundedCache<Promise<EpochKeys>>(MAX_CACHED_EPOCHS);
  #masterKey: Promise<Uint8Array<ArrayBuffer>> | undefined;
  #fingerprint: string | undefined;

  constructor(options: EpochOptions) {
    this.#options = options;
  }

  /** Whether the master key has been loaded. */
  get hasMasterKey(): boolean {
    return this.#fingerprint !== undefined;
  }

  /** The fingerprint of the master key, which each `kid` also contains; `undefined` before it has been loaded. */
  get fingerprint(): string | undefined {
    return this.#fingerprint;
  }

  /** Loads the master key if that has failed until now; otherwise makes sure that the store still has it. */
  async keepMasterKey(): Promise<void> {
    if (this.#masterKey === undefined) await this.keys(this.current());
    else await this.#options.masterKey(await this.#masterKey);
  }

  /** Returns the id of the current epoch: the Unix time at which it began, in seconds. */
  current(): string {
    const { clock, rotationMs } = this.#options;
    const startMs = Math.floor(clock.now() / rotationMs) * rotationMs;
    return String(Math.max(1, startMs / 1_000));
  }

  /** Checks whether the keys that a page names may be issued. */
  checkKid(kid: string): KidCheck {
    const { clock, rotationMs, retentionMs } = this.#options;
    const [, epoch] = KID.exec(kid) ?? [];
    if (epoch === undefined) return "malformed";
    const endMs = Number(epoch) * 1_000 + rotationMs;
    return endMs + retentionMs <= clock.now() ? "expired" : "valid";
  }

  /**
   * Returns the keys that a page names, whose `kid` the caller has checked, or why they cannot be derived.
   *
   * @throws {Error} The error of `masterKey`, if that fails; the next call tries again.
   */
  async keysOf(kid: string): Promise<EpochKeys | KidProblem> {
    const [epoch = ""] = kid.split("-");
    const keys = await this.keys(epoch);
    if (keys.kid !== kid) return "unknown_master_key";
    const aheadMs = Number(epoch) * 1_000 - this.#options.clock.now();
    return aheadMs > MAX_CLOCK_SKEW_MS ? "clock_skew" : keys;
  }

  /**
   * Returns the keys of an epoch. It rejects with the error of `masterKey`, if that fails; the next call tries again.
   */
  keys(epoch: string): Promise<EpochKeys> {
    const cached = this.#keys.get(epoch);
    if (cached) return cached;
    const keys = this.#deriveKeys(epoch);
    this.#keys.set(epoch, keys);
    keys.catch(() => this.#keys.delete(epoch)); // the caller handles the rejection
    return keys;
  }

  /**
   * Returns a hash of a text, in 12 digits. All processes with this master key return the same, and nobody without it can
   * find the text by trying likely ones.
   */
  async digest(text: string): Promise<string> {
    return await deriveDigits(await this.#keyOfApp(), text, DIGEST_INFO);
  }

  async #keyOfApp(): Promise<Uint8Array<ArrayBuffer>> {
    const { app } = this.#options;
    const loaded = await this.#loadMasterKey();
    return app === undefined ? loaded : await deriveKey(loaded, app, APP_INFO);
  }

  async #deriveKeys(epoch: string): Promise<EpochKeys> {
    const masterKey = await this.#keyOfApp();
    this.#fingerprint ??= await masterKeyFingerprint(masterKey);
    const kid = `${epoch}-${this.#fingerprint}`;
    const sessionKey = await deriveKey(masterKey, epoch, SESSION_KEY_INFO);
    const integrityKey = await deriveKey(masterKey, epoch, INTEGRITY_KEY_INFO);
    return { kid, sessionKey, integrityKey };
  }

  async #loadMasterKey(): Promise<Uint8Array<ArrayBuffer>> {
    this.#masterKey ??= this.#options.masterKey();
    try {
      return await this.#masterKey;
    } catch (error) {
      this.#masterKey = undefined;
      throw error;
    }
  }
}

/** Returns the fingerprint in a `kid`. */
export function fingerprintOf(kid: string): string {
  return kid.slice(kid.indexOf("-") + 1);
}

/** Returns what tells master keys apart, and is no secret. */
export function masterKeyFingerprint(
  masterKey: Uint8Array<ArrayBuffer>,
): Promise<string> {
  return deriveDigits(masterKey, "", FINGERPRINT_INFO);
}

async function deriveDigits(
  masterKey: Uint8Array<ArrayBuffer>,
  text: string,
  info: string,
): Promise<string> {
  const bytes = await deriveKey(masterKey, text, info);
  const digits = Array.from(bytes.subarray(0, FINGERPRINT_BYTES), toHex);
  return digits.join("");
}

function toHex(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}

/**
 * Derives a key of 32 bytes from the master key with HKDF-SHA-256 (RFC 5869). Neither the master key nor the key of
 * another epoch or purpose can be derived from it (endpoint specification, Session key, rule 1).
 *
 * @param info The purpose of the key, such as {@linkcode SESSION_KEY_INFO}.
 */
export async function deriveKey(
  masterKey: Uint8Array<ArrayBuffer>,
  epoch: string,
  info: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const baseKey = await crypto.subtle.importKey(
    "raw",
    masterKey,
    "HKDF",
    false,
    ["deriveBits"],
  );
  const algorithm = {
    name: "HKDF",
    hash: "SHA-256",
    salt: toUtf8(epoch),
    info: toUtf8(info),
  };
  return new Uint8Array(
    await crypto.subtle.deriveBits(algorithm, baseKey, 256),
  );
}
