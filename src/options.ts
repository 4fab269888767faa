import type {
  Manifest,
  ParsedManifest,
} from "./core/config/variables/manifest.ts";
import {
  type Environment,
  EXPECTED_PUBLIC_NAMES,
  parsePublicName,
  TIERS,
} from "./core/config/variables/tiers.ts";
import { readEnvironment } from "./files/read_environment.ts";
import {
  describeKind,
  formatValue,
  isMapping,
} from "./core/config/variables/quote.ts";
import type { PatternLibrary } from "./core/config/variables/apply_manifest.ts";
import {
  ConfigurationError,
  type SnapshotSources,
} from "./core/config/variables/snapshot.ts";
import type { Certificate } from "./addons/certificate_watch.ts";
import { LABEL_VALUES } from "./addons/metrics/metrics.ts";
import { EXPECTED_HOSTS, isHostPattern } from "./core/http/allowed_hosts.ts";
import { EXPECTED_PROXIES } from "./core/http/client_address.ts";
import { parsePollMs, POLL_SECONDS } from "./core/values/shared_polls.ts";
import type { DirectoryGate } from "./content/builds/directory_gate.ts";
import { parseIpBlock } from "./core/http/ip_address.ts";
import { EXPECTED_ORIGINS, normalizeOrigin } from "./core/http/origin.ts";
import { MASTER_KEY_BYTES } from "./core/keys/master_key.ts";
import { type Log, silentLog } from "./core/observe/log.ts";
import { combineMetrics, type Metrics } from "./core/observe/metrics.ts";
import { Registry } from "./addons/metrics/registry.ts";
import type { CoreServices, CoreSources } from "./core/settings.ts";
import {
  logWithSpanIds,
  noTelemetry,
  type Telemetry,
} from "./core/observe/telemetry.ts";
import { checkApp } from "./core/store/app_store.ts";
import { CircuitBreaker } from "./core/store/circuit_breaker.ts";
import { memoryStore } from "./engines/memory.ts";
import type { Store } from "./core/store/store.ts";
import {
  EXPECTED_BASE_PATH,
  EXPECTED_UPSTREAM,
  parseBasePath,
  parseUpstream,
  redactUrl,
} from "./core/values/urls.ts";
import { type Clock, systemClock } from "./core/values/clock.ts";
import type { Budget } from "./core/values/budget.ts";
import { OptionError } from "./core/values/option_error.ts";
import type { CacheGroup } from "./core/values/size_bounded_cache.ts";
import { EXPECTED_GLOBS, isGlob } from "./files/paths.ts";
import { VERSION } from "./version.ts";

/** A value, or a function that returns it: the function is called at startup and at every reload. */
export type Source<T> = T | (() => T | Promise<T>);

/** Options of {@linkcode createGateway}. Durations are in milliseconds. */
export interface GatewayOptions {
  /**
   * Variables by name, including the prefix `REP_PUBLIC_`, `REP_SENSITIVE_` or `REP_SERVER_`. If a function throws,
   * reading them fails with a {@linkcode ConfigurationError}: with the same one, or with the error as its `cause`. Only
   * the issues of a `ConfigurationError` are logged.
   *
   * @default {the environment of the process}
   */
  variables?: Source<Environment>;
  /**
   * Text of a `.rep.yaml`, of which only the `variables` are used here, or what the command has parsed it into.
   *
   * @default {undefined}
   */
  manifest?: Source<string | ParsedManifest | undefined>;
  /** Path of the file that `manifest` was read from, for messages. @default {undefined} */
  manifestPath?: string | undefined;
  /**
   * Loads the package `re2js` if the manifest has patterns, for runtimes without `npm:` addresses and for bundlers:
   * `() => import("re2js")`.
   *
   * @default {imports it from npm}
   */
  loadPatternLibrary?: (() => Promise<PatternLibrary>) | undefined;
  /** Whether to reject PUBLIC values that look like secrets. @default {false} */
  strict?: boolean;
  /**
   * PUBLIC variables, such as `STRIPE_KEY`, whose values are meant to be public although they look like secrets:
   * `strict` does not reject them, and nothing warns of them.
   *
   * @default {[]}
   */
  acceptPublic?: readonly string[];
  /** Whether to serve `GET /rep/changes`. @default {false} */
  hotReload?: boolean;
  /**
   * Whether to serve PUBLIC variables as flags to the SDKs of OpenFeature, under `/ofrep/`. With `hotReload`, the SDKs
   * learn of changes.
   *
   * @default {false}
   */
  ofrep?: boolean;
  /**
   * Origins whose pages may request session keys, streams and flags. If empty, only the gateway's own origin may.
   * Otherwise its own pages get keys only if its origin is in the list.
   *
   * @default {[]}
   */
  allowedOrigins?: readonly string[];
  /**
   * Hosts that are served, such as `app.example.com`, `localhost:8080` or `*.example.com`; requests for
   * others get 421, except for health. If empty, any host is allowed.
   *
   * @default {[]}
   */
  allowedHosts?: readonly string[];
  /** Addresses and CIDR blocks of proxies whose `X-Forwarded-*` headers are trusted. @default {[]} */
  trustedProxies?: readonly string[];
  /** Time after which clients discard a session key: 1_000 to 30_000. @default {30_000} */
  sessionKeyTtlMs?: number;
  /**
   * Maximum number of session keys per client address in any 60 s: 1 to 5_000. IPv6 addresses of one /64 count as one
   * client.
   *
   * @default {10}
   */
  sessionKeyMaxRate?: number;
  /** How long newly sent pages share a session key: 1_000 to 86_400_000, in whole seconds. @default {600_000} */
  keyRotationMs?: number;
  /** How long pages can still request a key after it has been replaced: 0 to 2_592_000_000. @default {86_400_000} */
  keyRetentionMs?: number;
  /** Maximum number of open streams: 1 to 1_000_000. Beyond it, clients poll. @default {5_000} */
  maxStreams?: number;
  /**
   * Maximum number of open streams per client address: 1 to 1_000_000. IPv6 addresses of one /64 count as one client.
   *
   * @default {half of maxStreams, rounded up}
   */
  maxStreamsPerClient?: number | undefined;
  /** Maximum age of a stream: 1 to 86_400_000. @default {1_800_000} */
  maxStreamAgeMs?: number;
  /**
   * How often pages poll instead of opening a stream, so that any shared cache can answer them: 10_000, 15_000, 30_000,
   * 60_000, 300_000 or 3_600_000. It has no effect without `hotReload`.
   *
   * @default {undefined: pages open streams}
   */
  pollMs?: number | undefined;
  /** Whether `GET /rep/health` is served by {@linkcode Gateway.fetchHealth} only. @default {false} */
  separateHealth?: boolean;
  /** Path under which everything is served, such as `/app`. @default {""} */
  basePath?: string;
  /** Directory of static files to serve, with the configuration injected into HTML. @default {undefined} */
  staticDir?: string | undefined;
  /**
   * How many bytes of static files and pages are kept in memory: 0 to 68_719_476_736. Files of up to 1 MiB and an
   * eighth of this are kept, and compared with the file system at most once a second. With 0, nothing is kept and
   * nothing is compressed.
   *
   * @default {67_108_864}
   */
  staticCacheBytes?: number;
  /**
   * The page for paths without a file, relative to `staticDir`, such as `app.html`.
   *
   * @default {the first that exists of 200.html, __spa-fallback.html, index.csr.html, 404.html and index.html}
   */
  fallback?: string | undefined;
  /**
   * Globs of the files in `staticDir` that never change, relative to it, such as `assets/*` for Vite, which puts a hash of
   * the content into each name there. Browsers and caches keep them for a year without asking again. `*` matches within
   * a name, `**` any directories. Pages always have to be revalidated.
   *
   * @default {[]}
   */
  immutable?: readonly string[];
  /**
   * Directory in which the `immutable` files of all builds are kept, outside of `staticDir`: open pages and gateways with
   * another build find them there. Gateways of one app may share it, as apps with different names may.
   *
   * @default {undefined}
   */
  keepBuilds?: string | undefined;
  /**
   * Files and directories that are never served from `staticDir`, by whatever name or link, such as the file of the
   * store. A function is called once a second, while files are requested.
   *
   * @default {[]}
   */
  neverServed?: Source<readonly string[]>;
  /** Upstream server to proxy, with the configuration injected into HTML. @default {undefined} */
  upstream?: URL | string | undefined;
  /**
   * Whether the upstream gets the host that the client requests instead of its own. Not with WebSockets: Deno's
   * `WebSocket` does not let it be set.
   *
   * @default {false}
   */
  preserveHost?: boolean;
  /**
   * Timeout for the response headers of the upstream: 1 to 3_600_000. A client that pauses its upload for as long gets
   * 408.
   *
   * @default {30_000}
   */
  upstreamTimeoutMs?: number;
  /**
   * Maximum number of requests in flight to the upstream, WebSockets included, and of other responses of more than 128
   * KiB. One client may have half of them: 1 to 1_000_000.
   *
   * @default {1_000}
   */
  maxTransfers?: number;
  /**
   * Whether WebSockets to the upstream are rejected. Deno does not bound the size of their messages.
   *
   * @default {false}
   */
  rejectWebsockets?: boolean;
  /** Master key of 32 bytes, from which all keys are derived. @default {generated once and kept in the store} */
  masterKey?: Uint8Array<ArrayBuffer> | undefined;
  /**
   * Says where this process runs, such as host name and port, for messages and the status page.
   *
   * @default {a new random identifier}
   */
  instanceId?: string | undefined;
  /**
   * What this process was built from, such as a Git hash or an image tag: it is shown beside the hash of the
   * configuration. 1 to 128 printable ASCII characters without spaces.
   *
   * @default {none}
   */
  revision?: string | undefined;
  /** Store of ids, rate limits and keys. The caller closes it. @default {memoryStore()} */
  store?: Store;
  /**
   * Whether to be ready although the store has never been read, for those who keep neither variables nor the master key
   * in it: until it can be read, pages lack what other replicas have published.
   *
   * @default {false}
   */
  startWithoutStore?: boolean;
  /**
   * The name of the app: a part of every key in the store, so that several apps can share one. A host, or 1 to 253 letters,
   * digits, `.`, `_` and `-`, of which the first is a letter or a digit.
   *
   * @default {none: the app has the keys without a name}
   */
  app?: string | undefined;
  /** Log to write to. @default {a log that discards everything} */
  log?: Log;
  /** Whether to log every request. @default {false} */
  accessLog?: boolean;
  /** Where measurements and routes are exported as well; `GET /metrics` needs none. @default {none} */
  telemetry?: Telemetry | undefined;
  /** Clock and timers. @default {the system clock} */
  clock?: Clock;
  /** Source of numbers in [0, 1) for backoff and jitter; not used for secrets. @default {Math.random} */
  random?: () => number;
}

/** The valid range of a numeric option. */
export interface NumberRange {
  readonly min: number;
  readonly max: number;
  /** Valid values are multiples of this. @default {1} */
  readonly step?: number;
}

/** The default and the valid range of a numeric option. */
export interface NumberOption extends NumberRange {
  readonly default: number;
}

type NumberOptionName = Exclude<
  {
    [K in keyof GatewayOptions]-?: GatewayOptions[K] extends number | undefined
      ? K
      : never;
  }[keyof GatewayOptions],
  "pollMs"
>;

/**
 * The default and the valid range of every numeric option; the options of the command refer to them as well. The
 * default of `maxStreamsPerClient` depends on `maxStreams`.
 */
export const NUMBER_OPTIONS = {
  // The maximum is REP's (endpoint specification, Limits).
  sessionKeyTtlMs: { default: 30_000, min: 1_000, max: 30_000 },
  sessionKeyMaxRate: { default: 10, min: 1, max: 5_000 }, // a window of more does not fit into a value of Deno KV
  keyRotationMs: { default: 600_000, min: 1_000, max: 86_400_000, step: 1_000 }, // a `kid` is in seconds
  keyRetentionMs: { default: 86_400_000, min: 0, max: 2_592_000_000 },
  maxStreams: { default: 5_000, min: 1, max: 1_000_000 },
  maxStreamsPerClient: { min: 1, max: 1_000_000 },
  maxStreamAgeMs: { default: 1_800_000, min: 1, max: 86_400_000 },
  staticCacheBytes: { default: 67_108_864, min: 0, max: 68_719_476_736 },
  upstreamTimeoutMs: { default: 30_000, min: 1, max: 3_600_000 },
  maxTransfers: { default: 1_000, min: 1, max: 1_000_000 },
} as const satisfies Record<
  NumberOptionName,
  NumberRange & Partial<NumberOption>
>;

/** What the items of a list may be. */
export interface ListOption {
  /** Description of valid items, for error messages. */
  readonly expected: string;
  /** Returns an item in its normal form; `undefined` if it is invalid. */
  readonly parse: (item: string) => string | undefined;
}

/** The valid items of every option that is a list; the options of the command refer to them as well. */
export const LIST_OPTIONS = {
  acceptPublic: { expected: EXPECTED_PUBLIC_NAMES, parse: parsePublicName },
  allowedOrigins: { expected: EXPECTED_ORIGINS, parse: normalizeOrigin },
  allowedHosts: { expected: EXPECTED_HOSTS, parse: accept(isHostPattern) },
  trustedProxies: { expected: EXPECTED_PROXIES, parse: accept(isIpBlock) },
  immutable: { expected: EXPECTED_GLOBS, parse: accept(isGlob) },
} as const satisfies Partial<Record<keyof GatewayOptions, ListOption>>;

/** Returns a parser of texts that are used as they are, if they are valid. */
export function accept(
  isValid: (text: string) => boolean,
): (text: string) => string | undefined {
  return (text) => isValid(text) ? text : undefined;
}

function isIpBlock(text: string): boolean {
  return parseIpBlock(text) !== undefined;
}

/** The options that are off unless they are set. */
export const SWITCHES = [
  "accessLog",
  "hotReload",
  "ofrep",
  "preserveHost",
  "rejectWebsockets",
  "separateHealth",
  "startWithoutStore",
] as const satisfies readonly (keyof GatewayOptions)[];

/** What users set: plain data, checked, with every default applied. */
export type Settings = ReturnType<typeof resolveSettings>;

/** What the gateways of a process share. */
export interface SharedServices {
  readonly store: CircuitBreaker;
  readonly registry: Registry;
  /** Receives what each of them measures. */
  readonly metrics: Metrics;
  readonly streams: Budget;
  readonly transfers: Budget;
  readonly cacheGroup: CacheGroup;
  readonly buildsGate: DirectoryGate;
}

/** What the gateway is given to work with. */
export interface Services extends CoreServices {
  /** Keeps the measurements for `GET /metrics`. */
  readonly registry: Registry;
  /** What all gateways of the process may have in flight; `undefined` if there is no other one. */
  readonly transfers: Budget | undefined;
  /** What all gateways of the process keep of their files; `undefined` if there is no other one. */
  readonly cacheGroup: CacheGroup | undefined;
}

/** What is read anew whenever it is needed. */
export interface Sources extends CoreSources {
  /** Returns the paths of files and directories that are never served. */
  readonly neverServed: () => Promise<readonly string[]>;
}

/** What the command knows about the process around the gateway. A module knows nothing of it. */
export interface ProcessInfo {
  /** The version of the gateway. */
  readonly version: string;
  /** Names the source of a variable, such as a file, by its name with the prefix. */
  readonly sourceOf: (name: string) => string;
  /** Returns the options in effect, as text without credentials. */
  readonly shownOptions: () => Promise<Readonly<Record<string, string>>>;
  /** What the port speaks; `undefined` if another program has bound it. */
  readonly scheme: "http" | "https" | undefined;
  /** Whether all responses leave through `Deno.serve`, so that they may share their bytes. */
  readonly sharesBytes: boolean;
  readonly certificate: Certificate;
  /** Returns how many lines of the log were dropped; `undefined` if they are somebody else's. */
  readonly droppedLines: () => number | undefined;
}

/** The process of a module. */
export const UNKNOWN_PROCESS: ProcessInfo = {
  version: VERSION,
  sourceOf: () => "variables",
  shownOptions: () => Promise.resolve({}),
  scheme: undefined,
  sharesBytes: false, // whoever calls fetch() may write into the bytes of a response
  certificate: { notAfter: () => undefined, rejection: () => undefined },
  droppedLines: () => undefined,
};

/**
 * Checks the settings and applies the defaults.
 *
 * @throws {OptionError} If an option has an invalid value.
 */
export function resolveSettings(options: GatewayOptions) {
  const { keepBuilds, upstream, revision, pollMs } = options;
  const basePath = options.basePath ?? "";
  return {
    ...resolveSwitches(options),
    ...resolveNumbers(options),
    allowedOrigins: resolveList("allowedOrigins", options),
    allowedHosts: resolveList("allowedHosts", options),
    trustedProxies: resolveList("trustedProxies", options),
    immutable: resolveList("immutable", options),
    basePath: valid(
      "basePath",
      EXPECTED_BASE_PATH,
      parseBasePath(basePath),
      basePath,
    ),
    staticDir: options.staticDir,
    fallback: options.fallback,
    keepBuilds: keepBuilds === undefined ? undefined : valid(
      "keepBuilds",
      "the path of a directory",
      parsePath(keepBuilds),
      keepBuilds,
    ),
    upstream: upstream === undefined ? undefined : valid(
      "upstream",
      EXPECTED_UPSTREAM,
      parseUpstream(upstream),
      redactUrl(upstream),
    ),
    masterKey: checkMasterKey(options.masterKey),
    instanceId: options.instanceId,
    revision: revision === undefined ? undefined : valid(
      "revision",
      EXPECTED_REVISION,
      parseRevision(revision),
      revision,
    ),
    app: checkApp(options.app),
    pollMs: pollMs === undefined ? undefined : valid(
      "pollMs",
      `one of ${POLL_SECONDS.map((seconds) => seconds * 1_000).join(", ")}`,
      parsePollMs(pollMs),
      pollMs,
    ),
  };
}

/**
 * Returns the services that the options give, and the default for each of the others.
 *
 * @param shared What other gateways of the process use as well.
 */
export function resolveServices(
  options: GatewayOptions,
  shared?: SharedServices,
): Services {
  const { telemetry = noTelemetry, clock = systemClock } = options;
  const registry = shared?.registry ?? new Registry(LABEL_VALUES);
  const log = logWithSpanIds(options.log ?? silentLog, telemetry);
  const metrics = shared?.metrics ??
    combineMetrics(registry, telemetry.metrics);
  const { store = memoryStore(), random = Math.random } = options;
  return {
    breaker: shared?.store ??
      new CircuitBreaker(store, { clock, metrics, telemetry, log }),
    streams: shared?.streams,
    transfers: shared?.transfers,
    cacheGroup: shared?.cacheGroup,
    clock,
    random,
    log,
    metrics,
    registry,
    telemetry,
  };
}

/** Returns the sources. */
export function resolveSources(
  options: GatewayOptions,
  sourceOf: ProcessInfo["sourceOf"],
): Sources {
  const acceptPublic = resolveList("acceptPublic", options);
  return {
    readSources: () => readSources(options, acceptPublic, sourceOf),
    neverServed: () => resolveSource(options.neverServed ?? []),
  };
}

async function readSources(
  options: GatewayOptions,
  acceptPublic: readonly string[],
  sourceOf: ProcessInfo["sourceOf"],
): Promise<SnapshotSources> {
  const [environment, source]: unknown[] = await Promise.all([
    readVariables(options.variables),
    resolveSource(options.manifest),
  ]);
  if (!isMapping(environment)) {
    throw sourceError("variables", "an object with their names", environment);
  }
  // Named now: the next read may find them elsewhere, and be rejected.
  const places = new Map(
    Object.keys(environment).map((name) => [name, sourceOf(name)]),
  );
  return {
    environment: environment as Environment, // classifying the variables reports values that are not strings
    sourceOf: (name) => places.get(name),
    manifest: await resolveManifest(source, options.manifestPath),
    requiredTiers: TIERS,
    strict: options.strict ?? false,
    rejectsSuspiciousValues: false,
    acceptPublic,
    loadPatternLibrary: options.loadPatternLibrary,
  };
}

/**
 * Reads the variables. The message of an error that is not ours may quote a value, as those of `JSON.parse()` and
 * `new URL()` do, and would appear in the log and on the status page: only its name does.
 */
async function readVariables(
  source: GatewayOptions["variables"],
): Promise<unknown> {
  if (source === undefined) return readEnvironment();
  try {
    return await resolveSource(source);
  } catch (cause) {
    if (cause instanceof ConfigurationError) throw cause;
    const name = cause instanceof Error ? cause.name : describeKind(cause);
    const issue =
      `Cannot read variables: got ${name}, whose message may quote a value and is not shown`;
    throw new ConfigurationError([issue], { cause });
  }
}

/** Parses a manifest, unless whoever has read it has done so. The YAML parser is loaded only if there is a text. */
async function resolveManifest(
  source: unknown,
  path: string | undefined,
): Promise<Manifest | undefined> {
  if (source === undefined) return undefined;
  if (typeof source === "string") {
    const { parseManifest } = await import(
      "./core/config/variables/manifest.ts"
    );
    return parseManifest(source, { path });
  }
  const isParsed = isMapping(source) && source.variables instanceof Map;
  if (!isParsed) throw sourceError("manifest", "a string", source);
  return source as unknown as Manifest;
}

function sourceError(
  name: string,
  expected: string,
  got: unknown,
): ConfigurationError {
  return new ConfigurationError([
    `Cannot use ${name}: expected ${expected}, got ${describeKind(got)}`,
  ]);
}

async function resolveSource<T>(source: Source<T>): Promise<T> {
  return source instanceof Function ? await source() : source;
}

function resolveSwitches(
  options: GatewayOptions,
): Record<typeof SWITCHES[number], boolean> {
  const values = SWITCHES.map((name) => [name, options[name] ?? false]);
  return Object.fromEntries(values);
}

function resolveNumbers(
  options: GatewayOptions,
): Record<NumberOptionName, number> {
  const names = Object.keys(NUMBER_OPTIONS) as NumberOptionName[];
  const numbers = names.map((name) => [name, resolveNumber(name, options)]);
  return Object.fromEntries(numbers);
}

function resolveNumber(
  name: NumberOptionName,
  options: GatewayOptions,
): number {
  const { min, max, step = 1 }: NumberRange = NUMBER_OPTIONS[name];
  const value = options[name] ?? defaultOf(name, options);
  const isMultiple = Number.isInteger(value) && value % step === 0;
  if (isMultiple && value >= min && value <= max) return value;
  const expected = step === 1 ? "an integer" : `a multiple of ${step}`;
  throw invalid(name, `${expected} from ${min} to ${max}`, value);
}

function defaultOf(name: NumberOptionName, options: GatewayOptions): number {
  if (name !== "maxStreamsPerClient") return NUMBER_OPTIONS[name].default;
  return Math.ceil(resolveNumber("maxStreams", options) / 2);
}

/** Checks each item of a list, which JavaScript may have passed without a check of its type. */
function resolveList(
  name: keyof typeof LIST_OPTIONS,
  options: GatewayOptions,
): readonly string[] {
  const list = options[name] ?? [];
  if (!Array.isArray(list)) throw invalid(name, "an array", list);
  const { expected, parse } = LIST_OPTIONS[name];
  return list.map((item) =>
    valid(name, expected, parse(item), redactUrl(item))
  );
}

/**
 * Returns the value that an option was parsed into.
 *
 * @throws {OptionError} If there is none, since the option is invalid.
 */
function valid<T>(
  option: string,
  expected: string,
  parsed: T | undefined,
  got: unknown,
): T {
  if (parsed !== undefined) return parsed;
  throw invalid(option, expected, got);
}

function invalid(option: string, expected: string, got: unknown): OptionError {
  return new OptionError(option, expected, formatValue(got));
}

function checkMasterKey(
  masterKey: Uint8Array<ArrayBuffer> | undefined,
): Uint8Array<ArrayBuffer> | undefined {
  if (masterKey === undefined) return undefined;
  const isArray = ArrayBuffer.isView(masterKey);
  if (isArray && masterKey.length === MASTER_KEY_BYTES) return masterKey;
  const expected = `a Uint8Array of ${MASTER_KEY_BYTES} bytes`;
  const got = isArray ? masterKey.length : typeof masterKey;
  throw new OptionError("masterKey", expected, String(got));
}

/** Returns a text that can be a path; an empty one would be the root of the file system. */
function parsePath(path: string): string | undefined {
  const isPath = typeof path === "string" && path !== "" &&
    !path.includes("\0");
  return isPath ? path : undefined;
}

/** A valid revision, for error messages. */
export const EXPECTED_REVISION =
  "1 to 128 printable ASCII characters without spaces";

/** Returns a text that can be a revision; otherwise `undefined`. The labels of a metric are separated by spaces. */
export function parseRevision(text: string): string | undefined {
  return /^[!-~]{1,128}$/.test(text) ? text : undefined;
}
