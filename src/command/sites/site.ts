import { EnvSource } from "../../files/env_source.ts";
import { readPaths } from "../../files/read_named.ts";
import { requiredPath } from "../../files/read_environment.ts";
import type { Addon, AddonParts } from "../../core/addon.ts";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import type { Environment } from "../../core/config/variables/tiers.ts";
import { isAddress } from "../../core/http/allowed_hosts.ts";
import { Problem } from "../../core/http/problem.ts";
import { type Log, logThrough, silentLog } from "../../core/observe/log.ts";
import type { Clock } from "../../core/values/clock.ts";
import { NO_APP } from "../../content/builds/owner.ts";
import { createGatewayIn } from "../../gateway.ts";
import type { Gateway } from "../../gateway_interface.ts";
import {
  type ProcessInfo,
  type SharedServices,
  UNKNOWN_PROCESS,
} from "../../options.ts";
import { optionsOf } from "../options/manifest_settings.ts";
import type { OptionName, StartOptions } from "../options/option_table.ts";
import { OPTIONS } from "../options/option_table.ts";
import {
  type ProcessServices,
  shownOptions,
  toGatewayOptions,
} from "../options/to_gateway_options.ts";
import {
  createIneffectiveLog,
  manifestSource,
  readManifest,
  viteNames,
} from "../sources/variable_sources.ts";
import { ownFiles } from "../start/check_start.ts";
import {
  MAX_SITE_VARIABLES,
  mayServe,
  type SiteFolder,
  type SiteFoldersOptions,
  tooManyVariables,
} from "./site_folder.ts";
import type { Measured, SiteMetrics } from "./site_metrics.ts";
import { DEFAULT_SITE } from "./site_names.ts";

/** How long a client should wait before it asks a rejected site again. */
const RETRY_AFTER_S = 5;

/** What every site gets from the command and from the process. */
export interface CommandContext {
  /** The options of the command, which a site has unless its own folder says otherwise. */
  readonly options: StartOptions;
  /** The directory of `--sites`. */
  readonly directory: string;
  readonly process: ProcessInfo;
  /** The store is that of all sites; each has a part of it. */
  readonly services: ProcessServices;
}

/** What the gateway of a site is made with. */
export interface SiteContext {
  readonly command: CommandContext;
  /** Its timers are those of all sites. */
  readonly clock: Clock;
  /** Returns the variables of the command, over which those of the site lie. */
  readonly base: () => Environment;
  /** What the gateways of all sites share, except where they measure. */
  readonly shared: Omit<SharedServices, "metrics">;
  readonly metrics: SiteMetrics;
  readonly folders: SiteFoldersOptions;
  /**
   * Looks at a site again, since what is read of it may lead elsewhere by now. If it does, the site is no longer served,
   * whatever triggers reloads.
   */
  readonly lookAgain: (site: string) => Promise<SiteFolder | undefined>;
}

/** The options that a site may have of its own, in the settings of its manifest: they concern nobody else. */
const OWN_OPTIONS = [
  "accept-public",
  "allowed-origins",
  "session-key-max-rate",
  "strict",
] as const satisfies readonly OptionName[];

/** The options of a site's manifest. */
type OwnOptions = Partial<Pick<StartOptions, typeof OWN_OPTIONS[number]>>;

/** A gateway for one host. */
export interface Site {
  readonly gateway: Gateway;
  readonly gauges: Measured["gauges"];
  /** What the gateway says about itself. */
  readonly parts: AddonParts;
  /** Whether another gateway would have to be made for what the folder is now; a reload is enough if not. */
  needsRestart(folder: SiteFolder): Promise<boolean>;
}

/**
 * Opens a site: a whole gateway with its own part of the store, its own keys, rollout, log and limits.
 *
 * @throws {ConfigurationError} If its files or its variables are invalid.
 */
export async function openSite(
  folder: SiteFolder,
  context: SiteContext,
): Promise<Site> {
  if (folder.issues.length > 0) throw new ConfigurationError(folder.issues);
  const { command, clock } = context;
  const { store, instanceId, masterKey, telemetry } = command.services;
  const log = logOfSite(command.services.log, folder.name);
  const own = await readOwnOptions(folder, log, clock);
  const options = optionsOfSite(folder, own, command.options);
  const envFiles = [folder.envFile].filter((path) => path !== undefined);
  const source = new EnvSource(envFiles.map(requiredPath), clock);
  const process: ProcessInfo = {
    version: command.process.version,
    scheme: command.process.scheme,
    sharesBytes: command.process.sharesBytes,
    sourceOf: (name) =>
      source.placeOf(name)?.path ?? command.process.sourceOf(name),
    shownOptions: () => shownOptions(options),
    certificate: UNKNOWN_PROCESS.certificate, // that of the process is watched once
    droppedLines: UNKNOWN_PROCESS.droppedLines, // and its lines are counted once
  };
  const { metrics, gauges } = context.metrics.of(folder.name);
  const shared = { ...context.shared, metrics };
  const gatewayOptions = toGatewayOptions(options, {
    variables: variablesOf(folder.name, envFiles, source, context, log),
    manifest: manifestSource(options.manifest, clock),
    neverServed: () => neverServed(folder, options, command.directory),
    services: { store, log, clock, instanceId, masterKey, telemetry },
  });
  let parts: AddonParts | undefined;
  const observer: Addon = (seen) => {
    parts = seen;
    return {};
  };
  const gateway = await createGatewayIn(process, gatewayOptions, {
    shared,
    addons: [observer],
    checkRoot: folder.dist === undefined
      ? undefined
      : rootCheck(folder.name, context),
    buildsFolder: folder.dist === undefined ? NO_APP : folder.name, // all sites share the build of the command
  });
  const structure = structureOf(folder, own);
  return {
    gateway,
    gauges,
    parts: parts!,
    async needsRestart(next) {
      const nextOwn = await readOwnOptions(next, silentLog, clock)
        .catch(() => own); // the reload reports an invalid manifest
      return structureOf(next, nextOwn) !== structure;
    },
  };
}

/** Returns what a gateway cannot change while it runs. */
function structureOf(
  { envFile, manifest, dist }: SiteFolder,
  own: OwnOptions,
): string {
  return JSON.stringify([envFile, manifest, dist, own]);
}

/** Returns a log that names the site in each line. */
function logOfSite(log: Log, site: string): Log {
  return logThrough((level, event, fields) =>
    log[level](event, { site, ...fields })
  );
}

/** Reads the options in the site's manifest. Those that concern the whole process are ignored, with a warning. */
async function readOwnOptions(
  { manifest: path }: SiteFolder,
  log: Log,
  clock: Clock,
): Promise<OwnOptions> {
  if (path === undefined) return {};
  const manifest = await readManifest(path, clock);
  const all = optionsOf(manifest);
  const keys = new Set(Object.keys(manifest.settings));
  const own: Record<string, unknown> = {};
  for (const name of OWN_OPTIONS) {
    const key = OPTIONS[name].manifest;
    if (key !== undefined && keys.delete(key)) own[name] = all[name];
  }
  if (keys.size > 0) {
    const names = [...keys].join(", ");
    log.warn("rep.start.warning", {
      detail:
        `settings of "${path}" that concern the whole process are ignored: ${names}; expected them on the command line`,
    });
  }
  return own as OwnOptions;
}

/** Returns the options of the command with what the site has instead. A site may take half of what all sites share. */
function optionsOfSite(
  { name, manifest, dist }: SiteFolder,
  own: OwnOptions,
  options: StartOptions,
): StartOptions {
  const half = (name: "max-streams" | "max-transfers" | "static-cache") =>
    Math.ceil(options[name] / 2);
  const perClient = options["max-streams-per-client"];
  return {
    ...options,
    app: name,
    manifest: manifest ?? options.manifest,
    "static-dir": dist ?? options["static-dir"],
    "keep-builds": (dist ?? options["static-dir"]) && options["keep-builds"],
    upstream: dist === undefined ? options.upstream : undefined,
    "allowed-hosts": hostsOf(name, options),
    "allowed-origins": own["allowed-origins"] ?? [],
    // A site may be stricter than the command, and not less strict.
    "session-key-max-rate": Math.min(
      own["session-key-max-rate"] ?? Infinity,
      options["session-key-max-rate"],
    ),
    strict: own.strict === true || options.strict,
    "accept-public": own["accept-public"] ?? options["accept-public"],
    "max-streams": half("max-streams"),
    "max-streams-per-client": perClient &&
      Math.min(perClient, half("max-streams")),
    "max-transfers": half("max-transfers"),
    "static-cache": half("static-cache"),
  };
}

/** Returns the hosts that a site's gateway accepts: its own, also with the dot of the root, which no address has. */
function hostsOf(name: string, options: StartOptions): readonly string[] {
  if (name === DEFAULT_SITE) return options["allowed-hosts"];
  return isAddress(name) ? [name] : [name, `${name}.`];
}

/** Returns a function that checks where the app of a site is, which may be a link, whenever that differs from before. */
function rootCheck(
  site: string,
  { folders, lookAgain }: SiteContext,
): (real: string) => Promise<void> {
  let allowed: string | undefined;
  return async (real) => {
    if (real === allowed) return;
    if (!await mayServe(real, site, folders)) {
      await lookAgain(site);
      throw siteRejected();
    }
    allowed = real;
  };
}

/** Returns the problem that a request for a rejected site is answered with. */
export function siteRejected(): Problem {
  return new Problem(503, {
    detail:
      "The configuration of this site was rejected; see the log of the gateway",
    headers: { "retry-after": String(RETRY_AFTER_S) },
  });
}

/**
 * Returns the source of a site's variables: its own lie over those of the command. A change in the store has them read
 * again, too, with no look at the directory before it.
 */
function variablesOf(
  site: string,
  envFiles: readonly string[],
  source: EnvSource,
  { base, lookAgain, clock }: SiteContext,
  log: Log,
): () => Promise<Environment> {
  const logIneffective = createIneffectiveLog(log);
  async function requireValid(): Promise<void> {
    const { issues = [] } = await lookAgain(site) ?? {};
    if (issues.length > 0) throw new ConfigurationError(issues);
  }
  return async () => {
    await requireValid();
    const paths = { flag: "the env file", paths: envFiles };
    const own = await readPaths(paths, () => source.read(), clock);
    await requireValid(); // a link may have been switched meanwhile
    logIneffective(own, {}, viteNames(source.files));
    const count = Object.keys(own).length;
    if (count <= MAX_SITE_VARIABLES) return { ...base(), ...own };
    throw new ConfigurationError([tooManyVariables(envFiles[0], count)]);
  };
}

/**
 * Returns what a site never serves. The app of the command may contain the directory of all sites; an app of a site's own
 * may contain nothing of the other sites.
 */
async function neverServed(
  { envFile, manifest, dist }: SiteFolder,
  options: StartOptions,
  directory: string,
): Promise<string[]> {
  const own = [envFile, manifest].filter((path) => path !== undefined);
  const others = dist === undefined ? [directory] : [];
  return [...own, ...others, ...await ownFiles(options)];
}
