import { chunk } from "@std/collections/chunk";
import type { Addon } from "../../core/addon.ts";
import {
  issuesOf,
  type Rejection,
  type ReloadOptions,
} from "../../core/config/configuration.ts";
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
import { formatTime } from "../../core/values/units.ts";
import { visibleJson } from "../../core/values/visible_text.ts";
import {
  type Log,
  type LogFields,
  logTaskError,
  messageOf,
} from "../../core/observe/log.ts";
import { combineMetrics } from "../../core/observe/metrics.ts";
import type { Problems } from "../../core/observe/problems.ts";
import { logWithSpanIds, noTelemetry } from "../../core/observe/telemetry.ts";
import { CircuitBreaker } from "../../core/store/circuit_breaker.ts";
import { Budget } from "../../core/values/budget.ts";
import { type Clock, every, waitAtMost } from "../../core/values/clock.ts";
import type { FileSystem } from "../../files/local_files.ts";
import { SerialQueue } from "../../core/values/serial_queue.ts";
import { CacheGroup } from "../../core/values/size_bounded_cache.ts";
import { DirectoryGate } from "../../content/builds/directory_gate.ts";
import { LABEL_VALUES } from "../../addons/metrics/metrics.ts";
import { Registry } from "../../addons/metrics/registry.ts";
import type { SiteReport } from "../../addons/status/status.ts";
import { createGatewayIn } from "../../gateway.ts";
import type { CloseOptions, Gateway } from "../../gateway_interface.ts";
import { LEAVE_TIMEOUT_MS } from "../../core/shutdown.ts";
import { toGatewayOptions } from "../options/to_gateway_options.ts";
import type { StartOptions } from "../options/option_table.ts";
import type { Served } from "../start/served.ts";
import { joinedReads } from "./joined_reads.ts";
import {
  type CommandContext,
  openSite,
  type Site,
  type SiteContext,
  siteRejected,
} from "./site.ts";
import {
  readSiteFolder,
  readSiteFolders,
  type SiteFolder,
} from "./site_folder.ts";
import { SiteMetrics } from "./site_metrics.ts";
import { DEFAULT_SITE, hostIn } from "./site_names.ts";
import { slottedClock } from "./slotted_clock.ts";

/** Options of {@linkcode openSites}. */
export interface SitesOptions extends CommandContext {
  /** Reads the variables of the command, over which those of each site lie. */
  readonly variables: () => Promise<Environment>;
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
/** How many sites are opened at once at the start. All at once would take an eighth more memory. */
const OPENED_AT_ONCE = 20;
/** A site of the directory. */
interface Entry {
  readonly folder: SiteFolder;
  /** What is served; `undefined` for nothing. */
  readonly site: Site | undefined;
  /** Why nothing is served, or not what the files say; `undefined` if all is well. */
  readonly rejection: Rejection | undefined;
}

/** What a look at the directory that a reload asks for does, beside trying again what was wrong. */
interface Reload {
  /** Whether all sites are read again, since the variables of the command have changed. */
  readonly readsAll: boolean;
  /** Whether many sites may be gone at once. */
  readonly isConfirmed: boolean;
}

/**
 * A gateway for each host: {@linkcode Sites} finds the one for a request. What all of them share is made here; what is the
 * process's own (probes, metrics, requests for unknown hosts) is done by one more gateway, without variables.
 *
 * @throws {ConfigurationError} If the directory or the variables of the command cannot be read. A wrong site is only
 * rejected.
 */
export async function openSites(options: SitesOptions): Promise<Sites> {
  const { telemetry = noTelemetry, clock } = options.services;
  const log = logWithSpanIds(options.services.log, telemetry);
  const registry = new Registry(LABEL_VALUES);
  const metrics = combineMetrics(registry, telemetry.metrics);
  const store = joinedReads(options.services.store);
  const {
    "max-streams": maxStreams,
    "max-streams-per-client": maxStreamsPerClient = Math.ceil(maxStreams / 2),
    "max-transfers": maxTransfers,
    "static-cache": cacheBytes,
  } = options.options;
  const sites = new Sites(options, new SiteMetrics(registry, metrics), {
    store: new CircuitBreaker(store, { clock, metrics, telemetry, log }),
    registry,
    streams: new Budget(maxStreams, maxStreamsPerClient),
    transfers: new Budget(maxTransfers, Math.ceil(maxTransfers / 2)),
    cacheGroup: new CacheGroup(cacheBytes),
    buildsGate: new DirectoryGate(clock),
  });
  await sites.start();
  return sites;
}

/** All sites of a directory, behind the functions of one gateway. */
export class Sites implements Served {
  readonly #options: SitesOptions;
  readonly #clock: Clock;
  readonly #log: Log;
  /** Logs the error of a look. */
  readonly #onError: (error: unknown) => void;
  readonly #context: SiteContext;
  readonly #isTrusted: (address: string) => boolean;
  /** The sites by host. */
  readonly #entries = new Map<string, Entry>();
  /** The gateways that others have replaced, until their last responses are sent. */
  readonly #replaced = new Set<Gateway>();
  /** What is served for no site. */
  #process!: Gateway;
  /** The variables of the command, as last read. */
  #base: Environment = {};
  /** The sites in the directory when it was last believed. What appears while it is not makes nobody believe it. */
  #believed: ReadonlySet<string> = new Set();
  /** Why the directory is not believed, as logged, and since when; `undefined` if it is. */
  #doubt: { readonly text: string; readonly since: number } | undefined;
  readonly #looking = new SerialQueue();
  #stopLooking = () => {};
  #isStopping = false;

  constructor(
    options: SitesOptions,
    metrics: SiteMetrics,
    shared: SiteContext["shared"],
  ) {
    const { services } = options;
    this.#options = options;
    this.#clock = services.clock;
    this.#log = services.log;
    this.#onError = logTaskError(services.log, "sites");
    this.#isTrusted = trustRule(options.options["trusted-proxies"]);
    this.#context = {
      command: options,
      clock: slottedClock(services.clock),
      base: () => this.#base,
      shared,
      metrics,
      folders: {
        directory: options.directory,
        releases: options.options.releases,
        files: options.files,
        now: () => services.clock.now(),
      },
      lookAgain: (site) => this.#lookAgain(site),
    };
  }

  /**
   * Opens the gateway of the process, and then all sites, many at once, since nobody is served yet.
   *
   * @throws {ConfigurationError} If the directory or the variables of the command cannot be read.
   */
  async start(): Promise<void> {
    const folders = await readSiteFolders(this.#context.folders);
    this.#believed = new Set(folders.map(({ name }) => name));
    this.#base = await this.#options.variables(); // first: the gateway of the process reads nothing before its store
    this.#process = await this.#openProcess();
    for (const some of chunk(folders, OPENED_AT_ONCE)) {
      await Promise.all(
        some.map((folder: SiteFolder) => this.#open(folder)),
      );
    }
    const { "hot-reload-mode": mode } = this.#options.options;
    if (mode !== "file_watch") return;
    const look = () => this.#look(undefined);
    const options = { clock: this.#clock, onError: this.#onError };
    this.#stopLooking = every(LOOK_MS, look, options);
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
    const entry = this.#find(request, info) ?? this.#defaultFor(request);
    if (entry === undefined) return this.#process.fetch(request, info);
    return entry.site?.gateway.fetch(request, info) ??
      problemResponse(siteRejected());
  };

  /** Responds on the port that stays internal: as the process, or with `?site=HOST` as that site. */
  readonly fetchHealth = async (request: Request): Promise<Response> => {
    const url = new URL(request.url);
    const site = url.searchParams.get("site");
    if (site !== null) {
      const gateway = this.#entries.get(site)?.site?.gateway;
      return await gateway?.fetchHealth(request) ?? notServed(site);
    }
    const response = await this.#process.fetchHealth(request);
    if (url.pathname !== "/rep/health" || request.method !== "GET") {
      return response;
    }
    const { status, headers } = response;
    const report: HealthReport = await response.json();
    const body = visibleJson({ ...report, sites: this.#reports() });
    return new Response(body, { status, headers });
  };

  /** Reads the variables of the command again, and looks at all sites. A reload that somebody asked for is believed. */
  async reload(options: ReloadOptions = {}): Promise<void> {
    const before = JSON.stringify(this.#base);
    await this.#process.reload(options).catch(() => {}); // it is logged; the sites keep the last valid variables
    const isConfirmed = options.isRequested === true;
    const readsAll = isConfirmed || JSON.stringify(this.#base) !== before;
    await this.#look({ readsAll, isConfirmed });
  }

  /** Resolves when what was found in the directory is served. */
  async looked(): Promise<void> {
    await this.#looking.settled();
  }

  beginShutdown(): void {
    this.#isStopping = true;
    this.#stopLooking();
    for (const gateway of this.#gateways()) gateway.beginShutdown();
  }

  async finishIncoming(ms: number): Promise<void> {
    await Promise.all(this.#gateways().map((it) => it.finishIncoming(ms)));
  }

  async close(
    { drainMs = 0, stopListening }: CloseOptions = {},
  ): Promise<void> {
    this.beginShutdown();
    await waitAtMost(LEAVE_TIMEOUT_MS, this.looked(), this.#clock); // a directory or a store may never answer
    // The first idle gateway must not close the port that another one receives an upload on.
    const stopped = this.finishIncoming(drainMs).then(() => stopListening?.());
    const options = { drainMs, stopListening: () => stopped };
    await Promise.all(this.#gateways().map((it) => it.close(options)));
    await stopped;
  }

  #gateways(): Gateway[] {
    const sites = [...this.#entries.values()].map(({ site }) => site?.gateway);
    const all = [this.#process, ...sites, ...this.#replaced];
    return all.filter((gateway) => gateway !== undefined);
  }

  async #openProcess(): Promise<Gateway> {
    const { options, process, services } = this.#options;
    const ownOptions: StartOptions = {
      ...options,
      app: PROCESS_APP,
      manifest: undefined,
      "static-dir": undefined,
      "keep-builds": undefined,
      upstream: undefined,
      "hot-reload": false,
      ofrep: false,
      "allowed-hosts": [NO_HOST],
    };
    const { shared, metrics } = this.#context;
    const gatewayOptions = toGatewayOptions(ownOptions, {
      variables: async () => {
        this.#base = await this.#options.variables();
        return {}; // they are those of the sites
      },
      manifest: undefined,
      neverServed: [],
      services: {
        store: services.store,
        log: services.log,
        clock: services.clock,
        instanceId: undefined,
        masterKey: services.masterKey ??
          crypto.getRandomValues(new Uint8Array(32)), // it issues no keys
        telemetry: services.telemetry,
      },
    });
    const addon: Addon = () => ({ problems: () => this.#problems() });
    return await createGatewayIn(process, gatewayOptions, {
      shared: { ...shared, metrics: metrics.ofProcess() },
      addons: [addon],
      sites: () => this.#reports(),
    });
  }

  /** Returns what is wrong with the sites, without their names: a probe of the public port gets it. */
  #problems(): Problems {
    const rejections = [...this.#entries.values()].map(rejectionOf);
    const since = rejections.flatMap((it) => it === undefined ? [] : it.since);
    return {
      site_rejected: since.length > 0 ? Math.min(...since) : undefined,
      sites_missing: this.#doubt?.since,
    } satisfies Record<typeof SITE_PROBLEMS[number], number | undefined>;
  }

  /** Returns the status of each site, and why it is rejected: first the rejected ones, then others with problems. */
  #reports(): Record<string, SiteReport> {
    const reports = [...this.#entries].map(([name, entry]) =>
      [name, reportOf(entry)] as const
    );
    const sorted = reports.sort(([a, first], [b, second]) =>
      orderOf(first) - orderOf(second) || (a < b ? -1 : 1)
    );
    return Object.fromEntries(sorted);
  }

  /** Returns the site for the host of a request, by the rules of trusted proxies; `undefined` if there is none. */
  #find(
    request: Request,
    info: ConnectionInfo | undefined,
  ): Entry | undefined {
    const { url } = request;
    const isTrusted = this.#isTrusted;
    const peer = info === undefined ? "unknown" : peerAddress(info.remoteAddr);
    if (!isTrusted(peer)) {
      // Parsing the URL takes a tenth of the time of a page. The host of most requests is that of a site as it is.
      const [, authority = ""] = AUTHORITY.exec(url) ?? [];
      const entry = this.#entries.get(authority);
      if (entry !== undefined) return entry;
    }
    const origin = readUrl(url)?.origin;
    if (origin === undefined) return undefined;
    const client = resolveClient(request, { origin, peer, isTrusted });
    return this.#entries.get(hostIn(client.origin));
  }

  /** Returns the site for all hosts without one. Health by an address, as probes ask for it, is that of the process. */
  #defaultFor({ url }: Request): Entry | undefined {
    const path = `${this.#options.options["base-path"]}/rep/health`;
    const isHealth = readUrl(url)?.path === path;
    return isHealth ? undefined : this.#entries.get(DEFAULT_SITE);
  }

  /**
   * Looks at the directory after the look that is running, if there is one.
   *
   * @param reload Set if a reload asks for it.
   */
  async #look(reload: Reload | undefined): Promise<void> {
    await this.#looking.run(() => this.#lookNow(reload)).catch(this.#onError);
  }

  /**
   * Opens the sites that have appeared, reloads those that have changed, and ends those that are gone: one after the other,
   * so that requests are answered in between.
   */
  async #lookNow(reload: Reload | undefined): Promise<void> {
    if (this.#isStopping) return;
    const folders = await readSiteFolders(this.#context.folders)
      .catch(messageOf);
    if (typeof folders === "string") {
      const detail = `all sites stay as they are: ${folders}`;
      return this.#logDoubt("rep.sites.unreadable", { detail });
    }
    const names = new Set(folders.map(({ name }) => name));
    const missing = [...this.#believed].filter((name) => !names.has(name));
    if (this.#isDoubtful(missing) && !reload?.isConfirmed) {
      const detail =
        `${missing.length} of ${this.#believed.size} sites are gone at once, and stay: expected SIGHUP if they were removed`;
      this.#logDoubt("rep.sites.missing", { detail, sites: missing });
    } else {
      if (this.#doubt !== undefined) this.#log.info("rep.sites.recovered");
      this.#doubt = undefined;
      this.#believed = names;
      const gone = [...this.#entries.keys()].filter((name) => !names.has(name));
      await Promise.all(gone.map((name) => this.#end(name)));
    }
    for (const folder of folders) {
      if (this.#isStopping) return;
      await this.#follow(folder, reload);
    }
  }

  /** See `lookAgain` of {@linkcode SiteContext}. */
  async #lookAgain(name: string): Promise<SiteFolder | undefined> {
    const folder = await readSiteFolder(name, this.#context.folders);
    if (folder?.leadsElsewhere && !this.#isStopping) {
      void this.#looking.run(() => this.#follow(folder, undefined))
        .catch(this.#onError);
    }
    return folder;
  }

  /** An unmounted volume or a wrong `rsync --delete` must not end all sites. */
  #isDoubtful(missing: readonly string[]): boolean {
    const total = this.#believed.size;
    const areAllGone = total >= 3 && missing.length === total;
    return areAllGone || (total >= 10 && missing.length > total / 2);
  }

  /** Logs once why the sites stay as they are. */
  #logDoubt(event: string, fields: LogFields): void {
    const text = JSON.stringify(fields);
    const before = this.#doubt;
    this.#doubt = { text, since: before?.since ?? this.#clock.now() };
    if (before?.text !== text) this.#log.error(event, fields);
  }

  /** Makes a site what its folder is now. */
  async #follow(
    folder: SiteFolder,
    reload: Reload | undefined,
  ): Promise<void> {
    const entry = this.#entries.get(folder.name);
    if (entry === undefined) return await this.#open(folder);
    const { site } = entry;
    const hasChanged = JSON.stringify(entry.folder) !== JSON.stringify(folder);
    const isRead = reload?.readsAll || hasChanged ||
      (reload !== undefined && rejectionOf(entry) !== undefined);
    if (!isRead) return;
    const isReloaded = site !== undefined && folder.issues.length === 0 &&
      !await site.needsRestart(folder);
    if (!isReloaded) return await this.#open(folder);
    this.#put(folder.name, { folder, site, rejection: undefined });
    const isStarting = site.parts.health.report().status === "starting";
    if (isStarting) return; // it waits for the store, and reads its files after that
    await site.gateway.reload().catch(() => {}); // it logs why it is rejected
  }

  /** Opens a site. What was served until now stays if that fails, unless the folder leads to what is not the site's. */
  async #open(folder: SiteFolder): Promise<void> {
    const { name } = folder;
    try {
      const site = await openSite(folder, this.#context);
      this.#put(name, { folder, site, rejection: undefined });
      this.#log.info("rep.site.opened", { site: name });
      site.gateway.ready.catch((error) => { // it waited for the store before it read its files
        const isServed = this.#entries.get(name)?.site === site;
        if (isServed) this.#reject(folder, undefined, issuesOf(error));
      });
    } catch (error) {
      const previous = this.#entries.get(name)?.site;
      const kept = folder.leadsElsewhere ? undefined : previous;
      this.#reject(folder, kept, issuesOf(error));
    }
  }

  /** @param site What is served although the folder is wrong; `undefined` for nothing. */
  #reject(
    folder: SiteFolder,
    site: Site | undefined,
    issues: readonly string[],
  ): void {
    const { name } = folder;
    const before = this.#entries.get(name);
    const known = before && rejectionOf(before);
    const since = known?.since ?? this.#clock.now();
    this.#put(name, { folder, site, rejection: { issues, since } });
    if (before?.rejection?.issues.join("\n") === issues.join("\n")) return;
    this.#log.error("rep.site.rejected", { site: name, issues });
  }

  /** Serves a site, exports its gauges, and ends the gateway that it replaces. */
  #put(name: string, entry: Entry): void {
    const previous = this.#entries.get(name)?.site;
    this.#entries.set(name, entry);
    const gauges = new Map(entry.site?.gauges);
    if (entry.rejection !== undefined) {
      gauges.set("rep.config.last_reload_success", () => 0);
    }
    this.#context.metrics.show(name, gauges);
    if (previous === undefined || previous === entry.site) return;
    const { gateway } = previous;
    const drainMs = this.#options.options.drain; // its requests in flight may finish
    this.#replaced.add(gateway);
    void gateway.close({ drainMs }).then(() => this.#replaced.delete(gateway));
  }

  /** Ends the streams of a site that is gone. */
  async #end(name: string): Promise<void> {
    const entry = this.#entries.get(name);
    this.#entries.delete(name);
    await entry?.site?.gateway.close();
    this.#context.metrics.forget(name);
    this.#log.info("rep.site.closed", { site: name });
  }
}

/** The host of a URL, without its port. */
const AUTHORITY = /^[a-z]+:\/\/(.*?)(?::\d+)?\//;

/** Returns why an entry is wrong; `undefined` if it is not. */
function rejectionOf({ site, rejection }: Entry): Rejection | undefined {
  return rejection ?? site?.parts.configuration.rejection;
}

function reportOf(entry: Entry): SiteReport {
  const health = entry.site?.parts.health;
  const { status = "rejected", build, builds, problems, problems_since } =
    health?.internalReport() ?? {};
  const rejection = rejectionOf(entry);
  return {
    status,
    build,
    builds,
    problems,
    problems_since,
    issues: rejection?.issues,
    rejected_since: rejection && formatTime(rejection.since),
  };
}

function orderOf({ status, issues }: SiteReport): number {
  if (issues !== undefined) return 0;
  return status === "healthy" ? 2 : 1;
}

function notServed(site: string): Response {
  return problemResponse(
    new Problem(404, { detail: `No site ${JSON.stringify(site)} is served` }),
  );
}
