import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import { resolve } from "node:path";
import process from "node:process";
import { EnvSource } from "../files/env_source.ts";
import { readEnvironment } from "../files/read_environment.ts";
import { withoutServiceLinks } from "../core/config/variables/service_links.ts";
import { type Log, messageOf } from "../core/observe/log.ts";
import { systemClock } from "../core/values/clock.ts";
import { readPaths, readTextFile } from "../files/read_named.ts";
import type { ConnectionInfo } from "../core/http/respond.ts";
import type { Gateway } from "../gateway_interface.ts";
import type { GatewayOptions } from "../options.ts";
import { envPathsOf } from "../vite/env_files.ts";
import type { RepOptions } from "../vite/project_files.ts";

/** Options of {@linkcode startGateway}: those of `createGateway()`, with files that the variables are read from. */
export interface ServerOptions
  extends Omit<GatewayOptions, "variables" | "manifest" | "manifestPath"> {
  /**
   * Files of `NAME=value` lines, or directories with one file per variable. Later ones take precedence, and the
   * environment of the process takes precedence over all of them.
   *
   * @default {the environment only}
   */
  envFile?: RepOptions["envFile"];
  /** Path of the manifest. @default {there is none} */
  manifest?: string;
}

/** The options that configurations of frameworks can pass on: plain data. */
export type PlainServerOptions = Pick<
  ServerOptions,
  | "acceptPublic"
  | "allowedHosts"
  | "allowedOrigins"
  | "envFile"
  | "manifest"
  | "sessionKeyMaxRate"
  | "strict"
  | "trustedProxies"
>;

/** What all copies of this module share: frameworks load it several times in one process. */
interface Shared {
  gateway?: Promise<Gateway> | undefined;
  /** The address of the peer, for everything that a request starts; empty if it has none, as over a Unix socket. */
  readonly peers: AsyncLocalStorage<string>;
  /** Where it says once that there is no address. */
  log?: Log | undefined;
}

const SHARED = Symbol.for("@rep/gateway/server");

function shared(): Shared {
  const holder = globalThis as { [SHARED]?: Shared };
  return holder[SHARED] ??= { peers: notePeers() };
}

/**
 * Frameworks hide the connection, or return an address from a header that anybody can send. Node.js itself announces each
 * request.
 */
function notePeers(): AsyncLocalStorage<string> {
  const peers = new AsyncLocalStorage<string>();
  subscribe("http.server.request.start", (message) => {
    const { request } = message as {
      request: { socket: { remoteAddress?: string } };
    };
    peers.enterWith(request.socket.remoteAddress ?? "");
  });
  return peers;
}

/**
 * Returns the gateway of this process. The first call starts it, with `hotReload` and a log; it follows changes of its
 * files, and closes at SIGTERM and SIGINT. Call it when a server starts or at its first request, and not in a build, whose pages
 * must not contain values.
 *
 * @throws {ConfigurationError} If the variables are invalid. The next call tries again.
 */
export async function startGateway(
  options: ServerOptions = {},
): Promise<Gateway> {
  const it = shared();
  it.gateway ??= open(options);
  try {
    return await it.gateway;
  } catch (error) {
    it.gateway = undefined;
    throw error;
  }
}

/** Starts the gateway with its server, or ends that with one line: it would say that it is ready, and answer 500. */
export function startOrExit(options: ServerOptions): Promise<Gateway> {
  return startGateway(options).catch((error) => {
    process.stderr.write(`${messageOf(error)}\n`);
    process.exit(1);
  });
}

async function open(
  { envFile = [], manifest: manifestPath, ...options }: ServerOptions,
): Promise<Gateway> {
  // Imported here, so that the configuration of a framework loads none of it.
  const { createGateway } = await import("../gateway.ts");
  const { createLog } = await import("../core/observe/log.ts");
  const { watchFiles } = await import("../sources.ts");
  const manifest = manifestPath && resolve(manifestPath);
  const envPaths = envPathsOf(envFile);
  const paths = envPaths.map(({ path }) => path);
  const { log = createLog(), clock = systemClock } = options;
  const source = new EnvSource(envPaths, clock);
  const envFiles = { flag: "envFile", paths };
  const gateway = await createGateway({
    hotReload: true,
    ...options,
    log,
    variables: () => readPaths(envFiles, () => source.readOverridden(), clock),
    manifest: manifest === undefined
      ? undefined
      : () => readTextFile(manifest, "manifest", clock),
    manifestPath: manifest,
  });
  logAbsent(source, log);
  const watched = manifest === undefined ? paths : [...paths, manifest];
  // The log says why a reload was rejected.
  await watchFiles(watched, () => void gateway.reload().catch(() => {}));
  closeAtSignals(gateway);
  shared().log = log;
  return gateway;
}

/** Logs where the values come from if a file is not there: nobody would notice a file that a deployment has lost. */
function logAbsent({ files }: EnvSource, log: Log): void {
  const all = files.map(({ variables }) => variables);
  const own = withoutServiceLinks(readEnvironment());
  const count = Object.keys(Object.assign({}, own, ...all)).length;
  for (const { path, variables } of files) {
    if (Object.keys(variables).length > 0) continue;
    log[count > 0 ? "info" : "warn"]("rep.config.no_env_file", {
      detail:
        `"${path}" is absent or empty: variables come from the environment (REP_PUBLIC_…) and other env files, which have ${count}`,
    });
  }
}

/** Closes the gateway, whose streams keep a server open. If nobody else listens to the signal, it ends the process. */
function closeAtSignals(gateway: Gateway): void {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.prependOnceListener(signal, async () => {
      const isAlone = process.listenerCount(signal) === 0;
      await gateway.close();
      if (isAlone) process.kill(process.pid, signal);
    });
  }
}

/**
 * Answers `/rep/*`, and otherwise puts the configuration into the page that `next` renders with the same values.
 *
 * @param next Responds to all other requests.
 */
export async function respond(
  request: Request,
  next: () => Response | Promise<Response>,
  options: ServerOptions = {},
): Promise<Response> {
  // Before the start: requests that are older than the first call here were not announced, which is nothing to warn of.
  const connection = connectionInfo();
  const gateway = await startGateway(options);
  const own = await gateway.handle(request, connection);
  if (own !== undefined) return own;
  return await gateway.run(async () =>
    await gateway.inject(await next(), request)
  );
}

/**
 * Returns the connection of the request that is being handled, for `gateway.fetch()`: session keys are limited for each
 * client. Servers that are not based on `node:http` do not announce their requests: it is `undefined`, all clients share
 * one limit, and the log says so once.
 */
export function connectionInfo(): ConnectionInfo | undefined {
  const it = shared();
  const hostname = it.peers.getStore();
  if (hostname === "") return undefined;
  if (hostname !== undefined) {
    return { remoteAddr: { transport: "tcp", hostname } };
  }
  const detail =
    "the server does not say who sends a request: all clients share one limit of session keys";
  it.log?.warn("rep.peer.unknown", { detail });
  it.log = undefined;
  return undefined;
}
