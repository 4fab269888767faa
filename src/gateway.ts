import { certificateWatch } from "./addons/certificate_watch.ts";
import { clientScript } from "./addons/client_script.ts";
import { metricsAddon } from "./addons/metrics/metrics.ts";
import type { ServerRendering } from "./addons/server_rendering.ts";
import { status } from "./addons/status.ts";
import type { SiteReport } from "./addons/status/status.ts";
import { openContent } from "./content/content.ts";
import { checkKeepBuilds } from "./content/builds/check_directory.ts";
import { DirectoryGate } from "./content/builds/directory_gate.ts";
import { NO_APP, ownerOf } from "./content/builds/owner.ts";
import type { Addon } from "./core/addon.ts";
import { createCore } from "./core/core.ts";
import { Transfers } from "./core/http/transfers.ts";
import { messageOf } from "./core/observe/log.ts";
import { requireRuntime } from "./core/values/runtime.ts";
import { localFiles } from "./files/local_files.ts";
import type { Gateway } from "./gateway_interface.ts";
import {
  type GatewayOptions,
  type ProcessInfo,
  resolveServices,
  resolveSettings,
  resolveSources,
  type SharedServices,
  UNKNOWN_PROCESS,
} from "./options.ts";

/**
 * Creates and starts a gateway. While its store cannot be read, it is returned before it is {@linkcode Gateway.ready}, so
 * that your server can listen: until then, it answers requests with 503.
 *
 * @throws {ConfigurationError} If the variables are invalid; the error lists all issues.
 * @throws {OptionError} If an option has an invalid value.
 *
 * @example Beside your own handler
 * ```ts
 * import { createGateway } from "@rep/gateway";
 * import { assertEquals } from "@std/assert";
 *
 * await using gateway = await createGateway({ variables: { REP_PUBLIC_API_URL: "https://api.example.com" } });
 * const response = await gateway.fetch(new Request("http://localhost/rep/health"));
 * const { variables } = await response.json();
 * assertEquals(variables, { public: 1, sensitive: 0, server: 0 });
 * ```
 */
export async function createGateway(
  options: GatewayOptions = {},
): Promise<Gateway> {
  const module = await import("./addons/server_rendering.ts");
  const rendering = await module.ServerRendering.create();
  const gateway = await createGatewayIn(UNKNOWN_PROCESS, options, {
    rendering,
  });
  gateway.ready.catch((error) => {
    options.log?.error("rep.start.failed", { detail: messageOf(error) });
  });
  return gateway;
}

/** What a gateway shares with others of its process. */
interface Beside {
  /** What code that renders pages in this process reads; the command's process has no such code. */
  readonly rendering?: ServerRendering;
  /** What all of them use, if there are several. */
  readonly shared?: SharedServices;
  /** What is added in addition. */
  readonly addons?: readonly Addon[];
  /** See `checkRoot` of `ServedFilesOptions`. */
  readonly checkRoot?: ((realPath: string) => Promise<void>) | undefined;
  /** Returns what the status page says of the sites of this process, if it has any. */
  readonly sites?: () => Readonly<Record<string, SiteReport>>;
  /** The folder in the directory of kept builds. @default {that of the app} */
  readonly buildsFolder?: string;
}

/** Creates and starts a gateway that knows more about its process, as that of the command does. */
export async function createGatewayIn(
  process: ProcessInfo,
  options: GatewayOptions,
  { rendering, shared, addons: added = [], checkRoot, sites, buildsFolder }:
    Beside = {},
): Promise<Gateway> {
  requireRuntime();
  const settings = resolveSettings(options);
  const services = resolveServices(options, shared);
  const sources = resolveSources(options, process.sourceOf);
  const { clock, log, metrics, registry, telemetry, cacheGroup } = services;
  const { version, certificate, droppedLines, sharesBytes } = process;
  const transfers = new Transfers({
    clock,
    log,
    maxTransfers: settings.maxTransfers,
    shared: services.transfers,
  });
  const { app = NO_APP, keepBuilds, immutable, staticDir } = settings;
  const gate = shared?.buildsGate ?? new DirectoryGate(clock);
  if (keepBuilds !== undefined) {
    const files = await localFiles(); // workers have none
    await checkKeepBuilds(keepBuilds, immutable, [staticDir], files, gate);
  }
  const content = await openContent(settings, {
    clock,
    log,
    metrics,
    telemetry,
    transfers,
    cacheGroup,
    sharesBytes,
    checkRoot,
    neverServed: sources.neverServed,
    builds: keepBuilds === undefined ? undefined : {
      directory: keepBuilds,
      folder: buildsFolder ?? app,
      owner: () => ownerOf(buildsFolder ?? app, settings, services),
      gate,
      metrics,
    },
  });
  const addons: Addon[] = [
    () => ({ problems: () => content?.problems?.() ?? {} }),
    clientScript(sharesBytes),
    certificateWatch(certificate, metrics),
    metricsAddon({ registry, metrics, version, droppedLines }),
    status({
      allowedHosts: settings.allowedHosts,
      instanceId: settings.instanceId,
      revision: settings.revision,
      registry,
      certificate,
      shownOptions: process.shownOptions,
      sites,
    }),
    ...added,
  ];
  if (settings.ofrep) {
    const { ofrep } = await import("./addons/ofrep.ts");
    addons.push(ofrep(settings.allowedOrigins));
  }
  const gateway = await createCore(
    settings,
    services,
    sources,
    {
      version,
      scheme: process.scheme,
      content,
      transfers,
      addons,
      decode,
      rendering,
    },
  );
  try {
    await gateway.start();
  } catch (error) {
    await gateway.close();
    throw error;
  }
  gateway.ready.catch(() => gateway.close());
  return gateway;
}

/** Decodes a page. It loads the decoders on demand, since `node:zlib` takes longer to load than the whole gateway. */
async function decode(response: Response): Promise<Response> {
  const module = await import("./content/coding/content_encoding.ts");
  return module.decodeContent(response);
}
