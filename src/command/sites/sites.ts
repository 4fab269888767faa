import type { Addon } from "../../core/addon.ts";
import {
  issuesOf,
  type ReloadOptions,
} from "../../core/config/configuration.ts";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import type { Environment } from "../../core/config/variables/tiers.ts";
import type { HealthReport } from "../../core/endpoints/health.ts";
import {
  peerAddress,
  resolveClient,
  trustRule,
} from "../../core/http/client_address.ts";
import { Problem, problemResponse } from "../../core/http/problem.ts";
import type { ConnectionInfo } from "../../core/http/respond.ts";
import { readUrl } from "../../core/http/routes.ts";
import { type Log, logTaskError, messageOf } from "../../core/observe/log.ts";
import { combineMetrics } from "../../core/observe/metrics.ts";
import {
  logWithSpanIds,
  noTelemetry,
  type Telemetry,
} from "../../core/observe/telemetry.ts";
import { CircuitBreaker } from "../../core/store/circuit_breaker.ts";
import type { Store } from "../../core/store/store.ts";
import { Budget } from "../../core/values/budget.ts";
import { type Clock, every } from "../../core/values/clock.ts";
import type { FileSystem } from "../../core/values/local_files.ts";
import {
  CacheGroup,
  SizeBoundedCache,
} from "../../core/values/size_bounded_cache.ts";
import { LABEL_VALUES } from "../../addons/metrics/metrics.ts";
import { Registry } from "../../addons/metrics/registry.ts";
import { createGatewayIn } from "../../gateway.ts";
import type { CloseOptions, Gateway } from "../../gateway_interface.ts";
import type { ProcessInfo, SharedServices } from "../../options.ts";
import { toGatewayOptions } from "../options/to_gateway_options.ts";
import type { StartOptions } from "../options/option_table.ts";
import type { Served } from "../start/served.ts";
import { joinedStore } from "./joined_store.ts";
import { openSite, type Site, type SiteContext } from "./site.ts";
import { readSiteFolders, type SiteFolder } from "./site_folder.ts";
import { SiteMetrics } from "./site_metrics.ts";
import { DEFAULT_SITE, hostIn } from "./site_names.ts";
import { slottedClock } from "./slotted_clock.ts";

/** Options of {@linkcode openSites}. */
export interface SitesOptions {
  /** The options of the command. */
  readonly options: StartOptions;
  /** The directory of `--sites`. */
  readonly directory: string;
  /** Reads the variables of the command, over which those of each site lie. */
  readonly variables: () => Promise<Environment>;
  readonly process: ProcessInfo;
  readonly masterKey: Uint8Array<ArrayBuffer> | undefined;
  readonly instanceId: string | undefined;
  /** The store of all sites; each has a part of it. */
  readonly store: Store;
  readonly log: Log;
  readonly telemetry: Telemetry | undefined;
  readonly clock: Clock;
  readonly files: FileSystem;
}

/**
 * What is wrong with sites, beside the problems of the core:
 * - `site_rejected`: the files of a site are wrong.
 * - `sites_missing`: many sites are gone at once, which is not believed.
 */
export const SITE_PROBLEMS = ["site_rejected", "sites_missing"] as const;

/** The app of the process itself. It is no host, since a name never ends with a dot. */
const PROCESS_APP = "sites.";
/** No request is for this host (RFC 6761), so the gateway of the process answers all of them with 421. */
const NO_HOST = "site.invalid";
/** How often to look at the directory with `file_watch`, so that a change is noticed within two seconds. */
const LOOK_MS = 1_500;
/** How long a client should wait before it asks a rejected site again. */
const RETRY_AFTER_S = 5;
/** How many hosts are kept as clients write them, since reading a URL takes a tenth of the time of a page. */
const MAX_AUTHORITIES = 10_000;

/** A site of the directory: a gateway, or why there is none. */
interface Entry {
  readonly folder: SiteFolder;
  readonly site: Site | undefined;
  /** Why it is not served, or not as its files say; empty if it is. */
  readonly issues: readonly string[];
}

/**
 * A gateway for each host: {@linkcode Sites} finds the one for a request. What all of them share is made here; what is the
 * process's own (probes, metrics, requests for unknown hosts) is done by one more gateway, without variables.
 *
 * @throws {ConfigurationError} If the directory or the variables of the command cannot be read. A wrong site is only
 * rejected.
 */
export async function openSites(options: SitesOptions): Promise<Sites> {
  const { telemetry = noTelemetry, clock } = options;
  const store = joinedStore(options.store);
  const log = logWithSpanIds(options.log, telemetry);
  const registry = new Registry(LABEL_VALUES);
  const all = combineMetrics(registry, telemetry.metrics);
  const metrics = new SiteMetrics(all);
  const limits = options.options;
  const shared = {
    store: new CircuitBreaker(store, {
      clock,
      metrics: all,
      telemetry,
      log,
    }),
    registry,
    streams: new Budget(limits["max-streams"]),
    transfers: new Budget(limits["max-transfers"]),
    cacheGroup: new CacheGroup(limits["static-cache"]),
  };
  const sharedBy = (site: string): SharedServices => ({
    ...shared,
    metrics: metrics.of(site),
  });
  const sites = new Sites(options, metrics, sharedBy);
  await sites.start();
  return sites;
}

/** All sites of a directory, behind the functions of one gateway. */
export class Sites implements Served {
  readonly #options: SitesOptions;
  readonly #metrics: SiteMetrics;
  readonly #context: SiteContext;
  readonly #isTrusted: (address: string) => boolean;
  /** The sites by host. */
  readonly #entries = new Map<string, Entry>();
  /** The hosts of authorities such as `shop.example.com:8080`. */
  readonly #hosts = new SizeBoundedCache<string>(MAX_AUTHORITIES);
  /** What is served for no site. */
  #process!: Gateway;
  #base: Environment = {};
  /** Why the directory is not believed; `undefined` if it is. */
  #doubt: string | undefined;
  /** The gateways that others have replaced, until their last responses are sent. */
  readonly #replaced = new Set<Promise<void>>();
  /** One look follows the other. It never rejects. */
  #looking: Promise<void> = Promise.resolve();
  #stopLooking = () => {};
  #isStopping = false;

  constructor(
    options: SitesOptions,
    metrics: SiteMetrics,
    sharedBy: SiteContext["sharedBy"],
  ) {
    this.#options = options;
    this.#metrics = metrics;
    this.#isTrusted = trustRule(options.options["trusted-proxies"]);
    this.#context = {
      options: options.options,
      directory: options.directory,
      version: options.process.version,
      scheme: options.process.scheme,
      masterKey: options.masterKey,
      instanceId: options.instanceId,
      base: () => this.#base,
      baseSourceOf: options.process.sourceOf,
      sharedBy,
      log: options.log,
      telemetry: options.telemetry,
      clock: slottedClock(options.clock),
    };
  }

  /**
   * Opens the gateway of the process, and then all sites at once, since nobody is served yet.
   *
   * @throws {ConfigurationError} If the directory or the variables of the command cannot be read.
   */
  async start(): Promise<void> {
    const { options, directory, clock, log } = this.#options;
    const folders = await this.#readFolders().catch((cause) => {
      const issue = `Cannot read --sites "${directory}": ${messageOf(cause)}`;
      throw new ConfigurationError([issue], { cause });
    });
    this.#process = await this.#openProcess();
    await Promise.all(folders.map((folder) => this.#open(folder)));
    if (options["hot-reload-mode"] !== "file_watch") return;
    const look = () => this.#look({ isConfirmed: false, isReload: false });
    const onError = logTaskError(log, "sites");
    this.#stopLooking = every(LOOK_MS, look, { clock, onError });
  }

  /** Resolves when the store has been read. A site that is not ready yet answers 503 itself. */
  get ready(): Promise<void> {
    return this.#process.ready;
  }

  /** Responds to a request with the gateway of its host. */
  readonly fetch = (
    request: Request,
    info?: ConnectionInfo,
  ): Response | Promise<Response> => {
    const host = this.#hostOf(request, info);
    const entry = this.#entries.get(host) ?? this.#defaultFor(request);
    if (entry === undefined) return this.#process.fetch(request, info);
    return entry.site?.gateway.fetch(request, info) ?? rejectedSite();
  };

  /** Responds on the port that stays internal: as the process, or with `?site=HOST` as that site. */
  readonly fetchHealth = async (request: Request): Promise<Response> => {
    const url = new URL(request.url);
    const site = url.searchParams.get("site");
    if (site !== null) {
      const gateway = this.#entries.get(site)?.site?.gateway;
      return await gateway?.fetchHealth(request) ?? unknownSite(site);
    }
    const response = await this.#process.fetchHealth(request);
    if (url.pathname !== "/rep/health" || request.method !== "GET") {
      return response;
    }
    const { status, headers } = response;
    const report: HealthReport = await response.json();
    const body = JSON.stringify({ ...report, sites: this.#reports() });
    return new Response(body, { status, headers });
  };

  /** Reads the variables of the command again, and looks at all sites. A reload that somebody asked for is believed. */
  async reload(options: ReloadOptions = {}): Promise<void> {
    const before = JSON.stringify(this.#base);
    await this.#process.reload(options).catch(() => {}); // it is logged; the sites keep the last valid variables
    const isConfirmed = options.logsUnchanged === true;
    const isReload = isConfirmed || JSON.stringify(this.#base) !== before;
    this.#look({ isConfirmed, isReload });
    await this.looked();
  }

  /** Resolves when what was found in the directory is served. */
  async looked(): Promise<void> {
    await this.#looking;
  }

  beginShutdown(): void {
    this.#isStopping = true;
    this.#stopLooking();
    for (const gateway of this.#gateways()) gateway.beginShutdown();
  }

  async finishIncoming(ms: number): Promise<void> {
    await Promise.all(this.#gateways().map((it) => it.finishIncoming(ms)));
  }

  async close(options: CloseOptions = {}): Promise<void> {
    this.beginShutdown();
    await this.looked();
    await Promise.all(this.#gateways().map((it) => it.close(options)));
    await Promise.all(this.#replaced);
  }

  #gateways(): Gateway[] {
    const sites = [...this.#entries.values()].map(({ site }) => site?.gateway);
    return [this.#process, ...sites].filter((it) => it !== undefined);
  }

  async #openProcess(): Promise<Gateway> {
    const { options, process, masterKey, log, clock } = this.#options;
    const ownOptions: StartOptions = {
      ...options,
      app: PROCESS_APP,
      manifest: undefined,
      "static-dir": undefined,
      upstream: undefined,
      "hot-reload": false,
      ofrep: false,
      "allowed-hosts": [NO_HOST],
    };
    const shared = this.#context.sharedBy("");
    const gatewayOptions = toGatewayOptions(ownOptions, {
      sources: {
        variables: async () => {
          this.#base = await this.#options.variables();
          return {}; // they are those of the sites
        },
        sourceOf: process.sourceOf,
        manifest: undefined,
      },
      neverServed: () => Promise.resolve([]),
      instanceId: undefined,
      masterKey: masterKey ?? crypto.getRandomValues(new Uint8Array(32)), // it issues no keys
      store: shared.store,
      log,
      telemetry: this.#options.telemetry,
      clock,
    });
    const addon: Addon = () => ({ problems: () => this.#problems() });
    return await createGatewayIn(process, gatewayOptions, {
      shared,
      addons: [addon],
    });
  }

  /** Returns what is wrong with the sites, without their names: a probe of the public port gets it. */
  #problems(): string[] {
    const problems: typeof SITE_PROBLEMS[number][] = [];
    const isRejected = [...this.#entries.values()].some(({ issues, site }) =>
      issues.length > 0 || site?.parts.configuration.rejection !== undefined
    );
    if (isRejected) problems.push("site_rejected");
    if (this.#doubt !== undefined) problems.push("sites_missing");
    return problems;
  }

  /** Returns the status of each site, and why it is rejected. */
  #reports(): Record<string, unknown> {
    const names = [...this.#entries.keys()].sort();
    const reports = names.map((name) => {
      const { site, issues = [] } = this.#entries.get(name) ?? {};
      const { status = "rejected", problems } = site?.parts.health.report() ??
        {};
      const all = issues.length > 0
        ? issues
        : site?.parts.configuration.rejection?.issues;
      return [name, { status, problems, issues: all }] as const;
    });
    return Object.fromEntries(reports);
  }

  /** Returns the site for all hosts without one. Health by an address, as probes ask for it, is that of the process. */
  #defaultFor({ url }: Request): Entry | undefined {
    const path = `${this.#options.options["base-path"]}/rep/health`;
    const isHealth = readUrl(url)?.path === path;
    return isHealth ? undefined : this.#entries.get(DEFAULT_SITE);
  }

  /** Returns the host of a request by the rules of trusted proxies; an empty text, which is no host, for an invalid URL. */
  #hostOf(request: Request, info: ConnectionInfo | undefined): string {
    const { url } = request;
    const isTrusted = this.#isTrusted;
    const peer = info === undefined ? "unknown" : peerAddress(info.remoteAddr);
    const begin = url.indexOf("//") + 2;
    const authority = url.slice(begin, url.indexOf("/", begin));
    const isForwarded = isTrusted(peer);
    const known = isForwarded ? undefined : this.#hosts.get(authority);
    if (known !== undefined) return known;
    const origin = readUrl(url)?.origin;
    if (origin === undefined) return "";
    const client = resolveClient(request, { origin, peer, isTrusted });
    const host = hostIn(client.origin);
    if (!isForwarded) this.#hosts.set(authority, host);
    return host;
  }

  /** Begins a look at the directory after the one that is running, if there is one. */
  #look(kind: LookKind): void {
    const onError = logTaskError(this.#options.log, "sites");
    this.#looking = this.#looking.then(() => this.#lookNow(kind)).catch(
      onError,
    );
  }

  /**
   * Opens the sites that have appeared, reloads those that have changed, and ends those that are gone: one after the other,
   * so that requests are answered in between.
   */
  async #lookNow({ isConfirmed, isReload }: LookKind): Promise<void> {
    if (this.#isStopping) return;
    const folders = await this.#readFolders().catch(messageOf);
    if (typeof folders === "string") return this.#logUnreadable(folders);
    const names = new Set(folders.map(({ name }) => name));
    const gone = [...this.#entries.keys()].filter((name) => !names.has(name));
    if (this.#isDoubtful(gone) && !isConfirmed) this.#logDoubt(gone);
    else {
      this.#doubt = undefined;
      for (const name of gone) await this.#end(name);
    }
    for (const folder of folders) {
      if (this.#isStopping) return;
      await this.#follow(folder, isReload);
    }
  }

  async #readFolders(): Promise<SiteFolder[]> {
    const { options, directory, files, clock } = this.#options;
    return await readSiteFolders({
      directory,
      releases: options.releases,
      files,
      now: () => clock.now(),
    });
  }

  #logUnreadable(reason: string): void {
    const { directory, log } = this.#options;
    if (reason === this.#doubt) return;
    this.#doubt = reason;
    const detail =
      `all sites stay as they are: cannot read "${directory}": ${reason}`;
    log.error("rep.sites.unreadable", { detail });
  }

  /** An unmounted volume or a wrong `rsync --delete` must not end all sites. */
  #isDoubtful(gone: readonly string[]): boolean {
    const total = this.#entries.size;
    const areAllGone = total >= 3 && gone.length === total;
    return areAllGone || (total >= 10 && gone.length > total / 2);
  }

  #logDoubt(gone: readonly string[]): void {
    const doubt = gone.join(", ");
    if (doubt === this.#doubt) return;
    this.#doubt = doubt;
    const detail =
      `${gone.length} of ${this.#entries.size} sites are gone at once, and stay: expected SIGHUP if they were removed`;
    this.#options.log.error("rep.sites.missing", { detail, sites: gone });
  }

  async #follow(folder: SiteFolder, isReload: boolean): Promise<void> {
    const entry = this.#entries.get(folder.name);
    if (entry?.site === undefined) {
      const isKnown = entry !== undefined && isSame(entry.folder, folder);
      if (!isKnown || isReload) await this.#open(folder);
      return;
    }
    const { site } = entry;
    if (folder.issues.length > 0) {
      // What it would serve may not be the site's own, unlike with a configuration that is wrong.
      this.#reject(folder, undefined, folder.issues);
      return await site.gateway.close();
    }
    const isChanged = !isSame(entry.folder, folder);
    if (!isChanged && !isReload) return;
    if (isChanged && await site.needsRestart(folder)) {
      return await this.#open(folder, site);
    }
    this.#entries.set(folder.name, { folder, site, issues: [] });
    await site.gateway.reload().catch(() => {}); // it logs why it is rejected
  }

  /** Opens a site. It replaces the one that was served until now, which stays if it cannot. */
  async #open(folder: SiteFolder, previous?: Site): Promise<void> {
    const { name } = folder;
    try {
      const site = await openSite(folder, this.#context);
      this.#entries.set(name, { folder, site, issues: [] });
      site.gateway.ready.catch((error) =>
        // it waited for the store before it read its files
        this.#reject(folder, undefined, issuesOf(error))
      );
      this.#options.log.info("rep.site.opened", { site: name });
    } catch (error) {
      return this.#reject(folder, previous, issuesOf(error));
    }
    if (previous !== undefined) this.#finish(previous);
  }

  /** Ends a site that another one has replaced. Its requests in flight may finish. */
  #finish({ gateway }: Site): void {
    const closing = gateway.close({ drainMs: this.#options.options.drain });
    this.#replaced.add(closing);
    void closing.then(() => this.#replaced.delete(closing));
  }

  /** @param site What is served although the folder is wrong; `undefined` for nothing. */
  #reject(
    folder: SiteFolder,
    site: Site | undefined,
    issues: readonly string[],
  ): void {
    const { name } = folder;
    const before = this.#entries.get(name)?.issues ?? [];
    this.#entries.set(name, { folder, site, issues });
    // Until a gateway of the site says so itself.
    this.#metrics.of(name).observe("rep.config.last_reload_success", () => 0);
    if (before.join("\n") === issues.join("\n")) return;
    this.#options.log.error("rep.site.rejected", { site: name, issues });
  }

  /** Ends the streams of a site that is gone, or is opened anew. */
  async #end(name: string): Promise<void> {
    const entry = this.#entries.get(name);
    this.#entries.delete(name);
    this.#metrics.forget(name);
    await entry?.site?.gateway.close();
    this.#options.log.info("rep.site.closed", { site: name });
  }
}

/** Why the directory is looked at. */
interface LookKind {
  /** Whether somebody has asked for it, so that many sites may be gone at once. */
  readonly isConfirmed: boolean;
  /** Whether sites that have not changed are reloaded as well, since the variables of the command have. */
  readonly isReload: boolean;
}

function isSame(a: SiteFolder, b: SiteFolder): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function rejectedSite(): Response {
  return problemResponse(
    new Problem(503, {
      detail:
        "The configuration of this site was rejected; see the log of the gateway",
      headers: { "retry-after": String(RETRY_AFTER_S) },
    }),
  );
}

function unknownSite(site: string): Response {
  return problemResponse(
    new Problem(404, { detail: `There is no site ${JSON.stringify(site)}` }),
  );
}
