import { type Clock, systemClock } from "./clock.ts";
import { MASTER_KEY_BYTES } from "./crypto/master_key.ts";
import { type TrustRule, trustRule } from "./http/client_address.ts";
import { isOrigin } from "./http/origin.ts";
import { type Log, silentLog } from "./log.ts";
import { memoryStore } from "./store/memory.ts";
import type { Store } from "./store/store.ts";
import type { Environment } from "./variables/classify.ts";
import { readEnvironment } from "./variables/environment.ts";
import type { SnapshotInput } from "./variables/snapshot.ts";

/** Something, or a function that gives it: asked at the start and at every reload. */
export type Source<T> = T | (() => T | Promise<T>);

/** What {@linkcode createGateway} can be given. Durations are in milliseconds. */
export interface GatewayOptions {
  /**
   * Names, with their `REP_PUBLIC_`, `REP_SENSITIVE_` or `REP_SERVER_` prefix, and values.
   *
   * @default {the process's environment}
   */
  variables?: Source<Environment>;
  /** The text of a `.rep.yaml`, of which only `variables` count here. */
  manifest?: Source<string> | undefined;
  /** Whether PUBLIC values that look like secrets are refused. @default {false} */
  strict?: boolean;
  /** Whether there is a `GET /rep/changes`. @default {false} */
  hotReload?: boolean;
  /** Origins whose pages may have a session key. @default {[] (only the gateway's own)} */
  allowedOrigins?: readonly string[];
  /** Addresses and CIDR blocks of proxies whose `X-Forwarded-*` headers are believed. @default {[]} */
  trustedProxies?: readonly string[];
  /** How long a session key may be used, at most 30 s. @default {30_000} */
  sessionKeyTtlMs?: number;
  /** Session keys for one client address in any 60 s. @default {10} */
  sessionKeyMaxRate?: number;
  /** How often pages get a new key, in whole seconds. @default {600_000} */
  keyRotationMs?: number;
  /** How long a page's key can be asked for. @default {86_400_000} */
  keyRetentionMs?: number;
  /** Streams that may be open at once. @default {5_000} */
  maxStreams?: number;
  /** When a stream ends. @default {1_800_000} */
  maxStreamAgeMs?: number;
  /** Whether `GET /rep/health` is left to {@linkcode Gateway.fetchHealth}. @default {false} */
  separateHealth?: boolean;
  /** A directory to serve, with the configuration in its pages. @default {nothing but the endpoints} */
  staticDir?: string | undefined;
  /** A server to stand before, with the configuration in its pages. @default {nothing but the endpoints} */
  upstream?: URL | string | undefined;
  /** How long the upstream may take until its headers are there. @default {30_000} */
  upstreamTimeoutMs?: number;
  /** 32 bytes from which all keys are derived. @default {made once, and kept in the store} */
  masterKey?: Uint8Array<ArrayBuffer> | undefined;
  /**
   * What only one process at a time is called, such as its host's name and port: then one that is started again waits for
   * nobody to be sure that its predecessor is dead.
   *
   * @default {a name of its own each time}
   */
  instanceId?: string | undefined;
  /** Where ids, limits and keys are kept; the caller closes it. @default {memoryStore()} */
  store?: Store;
  /** Where it is written what happens. @default {a log that writes nothing} */
  log?: Log;
  /** The time. @default {the real one} */
  clock?: Clock;
  /** From 0 to below 1, for pauses and phases; no secret comes from it. @default {Math.random} */
  random?: () => number;
}

/** The same, checked and with every default in its place. */
export interface GatewaySettings {
  readonly strict: boolean;
  readonly hotReload: boolean;
  readonly allowedOrigins: readonly string[];
  readonly isTrusted: TrustRule;
  readonly sessionKeyTtlMs: number;
  readonly sessionKeyMaxRate: number;
  readonly keyRotationMs: number;
  readonly keyRetentionMs: number;
  readonly maxStreams: number;
  readonly maxStreamAgeMs: number;
  readonly separateHealth: boolean;
  readonly staticDir: string | undefined;
  readonly upstream: URL | undefined;
  readonly upstreamTimeoutMs: number;
  readonly masterKey: Uint8Array<ArrayBuffer> | undefined;
  readonly instanceId: string | undefined;
  readonly store: Store;
  readonly log: Log;
  readonly clock: Clock;
  readonly random: () => number;
  /** Reads all sources. */
  readonly read: () => Promise<SnapshotInput>;
}

/** Spec, Limits. */
const MAX_SESSION_KEY_TTL_MS = 30_000;

/**
 * Checks the options, and completes them.
 *
 * @throws {RangeError} If one of them has a value that it cannot have.
 */
export function checkOptions(options: GatewayOptions): GatewaySettings {
  const { masterKey, upstream, allowedOrigins = [], strict = false } = options;
  if (masterKey) checkNumber("masterKey, by its length in bytes", masterKey.length, MASTER_KEY_BYTES, MASTER_KEY_BYTES);
  checkOrigins(allowedOrigins);
  return {
    strict,
    hotReload: options.hotReload ?? false,
    allowedOrigins,
    isTrusted: trustRule(options.trustedProxies ?? []),
    sessionKeyTtlMs: checkNumber("sessionKeyTtlMs", options.sessionKeyTtlMs ?? 30_000, 1_000, MAX_SESSION_KEY_TTL_MS),
    sessionKeyMaxRate: checkNumber("sessionKeyMaxRate", options.sessionKeyMaxRate ?? 10, 1, 10_000),
    keyRotationMs: checkNumber("keyRotationMs", options.keyRotationMs ?? 600_000, 1_000, Infinity, 1_000),
    keyRetentionMs: checkNumber("keyRetentionMs", options.keyRetentionMs ?? 86_400_000, 0, Infinity),
    maxStreams: checkNumber("maxStreams", options.maxStreams ?? 5_000, 1, Infinity),
    maxStreamAgeMs: checkNumber("maxStreamAgeMs", options.maxStreamAgeMs ?? 1_800_000, 1, Infinity),
    separateHealth: options.separateHealth ?? false,
    staticDir: options.staticDir,
    upstream: upstream === undefined ? undefined : new URL(upstream),
    upstreamTimeoutMs: checkNumber("upstreamTimeoutMs", options.upstreamTimeoutMs ?? 30_000, 1, Infinity),
    masterKey,
    instanceId: options.instanceId,
    store: options.store ?? memoryStore(),
    log: options.log ?? silentLog,
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    read: () => readSources(options, strict),
  };
}

async function readSources({ variables = readEnvironment, manifest }: GatewayOptions, strict: boolean) {
  return { environment: await resolveSource(variables), manifest: await resolveSource(manifest), strict };
}

async function resolveSource<T>(source: Source<T>): Promise<T> {
  return source instanceof Function ? await source() : source;
}

function checkOrigins(origins: readonly string[]): void {
  const wrong = origins.find((origin) => !isOrigin(origin));
  if (wrong === undefined) return;
  throw new RangeError(`Cannot use allowedOrigins: expected origins such as https://app.example.com, got "${wrong}"`);
}

function checkNumber(name: string, value: number, least: number, most: number, step = 1): number {
  if (value >= least && value <= most && value % step === 0) return value;
  const steps = step === 1 ? "" : ` in steps of ${step}`;
  const range = least === most ? least : `${least} to ${most}`;
  throw new RangeError(`Cannot use ${name}: expected ${range}${steps}, got ${value}`);
}
