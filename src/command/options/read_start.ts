import { storeOfPort } from "../../core/store/app_store.ts";
import type { Store } from "../../core/store/store.ts";
import type { OptionName, StartOptions } from "./option_table.ts";
import { withoutServiceLinks } from "../../core/config/variables/service_links.ts";
import type { Environment } from "../../core/config/variables/tiers.ts";
import { readEnvironment } from "../../files/read_environment.ts";
import {
  EXPECTED_MASTER_KEY,
  parseMasterKey,
} from "../../core/keys/master_key.ts";
import { readVariable } from "../../core/values/runtime.ts";
import { loadKvToken, readSecret } from "../sources/secret_files.ts";
import { programVersion } from "../program_version.ts";
import { readManifest } from "../sources/variable_sources.ts";
import {
  environmentWarnings,
  isSet,
  MASTER_KEY_VARIABLE,
  parseCommandLine,
  readOptions,
  UsageError,
} from "./read_options.ts";

/** A command line that starts the gateway. */
export interface Start {
  readonly options: StartOptions;
  readonly masterKey: Uint8Array<ArrayBuffer> | undefined;
  /** The version of the program. */
  readonly version: string;
  /** Problems that do not prevent the start. */
  readonly warnings: readonly string[];
  /** Returns whether an option is set anywhere, even if to its default. */
  readonly isSet: (name: OptionName) => boolean;
}

/** Deno Deploy kills the process 5 s after SIGINT. The last responses and closing the store need the other 2 s. */
const MAX_DEPLOY_DRAIN_MS = 3_000;

/**
 * Reads the options from the arguments, the environment and the manifest, and the secrets from their files.
 *
 * @param given `REP_…` variables; by default, those of the process.
 * @param onDeploy Whether the process runs on Deno Deploy, where `--drain` is limited to 3 s.
 * @param isTerminal Whether somebody watches, for whom logs are text, and files are reloaded when they are saved.
 * Elsewhere, half of an edit could be published.
 * @throws {UsageError} If an option is unknown or invalid.
 * @throws {ConfigurationError} If the manifest cannot be read or is invalid.
 */
export async function readStart(
  args: readonly string[],
  given = readEnvironment(),
  onDeploy = isOnDeploy(),
  isTerminal = Deno.stdout.isTerminal(),
): Promise<Start | "help" | "version"> {
  const { flags, help, version } = parseCommandLine(args);
  if (help) return "help";
  if (version) return "version";
  const environment = withoutServiceLinks(given);
  // Reads all options, so that a mistake in a flag is reported before the manifest is read.
  const { manifest: path } = readOptions({ flags, environment, manifest: {} });
  const manifest = path === undefined
    ? {}
    : (await readManifest(path)).settings;
  const sources = { flags, environment, manifest };
  const options = readOptions(sources);
  await loadKvToken();
  const warnings = environmentWarnings(given);

  // As with REP's Go gateway, there is no health port if it is 0 or the same as the port.
  const { port, "health-port": healthPort } = options;
  const isSeparate = healthPort !== 0 && healthPort !== port;
  if (healthPort === port) {
    // Probes on that port would get 200 with the app's page, or a response of the upstream.
    warnings.push(
      `--health-port ${port} is --port, where /livez, /readyz and /metrics are not served: expected another port`,
    );
  }
  const isOpen = (name: OptionName) => isTerminal && !isSet(name, sources);
  const { "env-file": envFiles, sites } = options;
  const hasFiles = envFiles.length > 0 || (path ?? sites) !== undefined;
  const isWatched = options["hot-reload"] && hasFiles &&
    isOpen("hot-reload-mode");
  const maxDrain = onDeploy ? MAX_DEPLOY_DRAIN_MS : Infinity;
  return {
    isSet: (name) => isSet(name, sources),
    options: {
      ...options,
      "log-format": isOpen("log-format") ? "text" : options["log-format"],
      "hot-reload-mode": isWatched ? "file_watch" : options["hot-reload-mode"],
      "health-port": isSeparate ? healthPort : undefined,
      drain: Math.min(options.drain, maxDrain),
    },
    masterKey: await readMasterKey(environment),
    version: await programVersion(),
    warnings,
  };
}

/** Returns whether the process runs on Deno Deploy, which sets this variable. */
export function isOnDeploy(): boolean {
  return readVariable("DENO_DEPLOY") === "true";
}

async function readMasterKey(
  environment: Environment,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const text = await readSecret(
    MASTER_KEY_VARIABLE,
    (name) => environment[name],
    EXPECTED_MASTER_KEY,
  );
  if (text === undefined) return undefined;
  try {
    return parseMasterKey(text);
  } catch (cause) {
    throw new UsageError((cause as Error).message, { cause });
  }
}

/** The options that determine the database of a gateway, and its part of the database. */
export type StoreOptions = Pick<StartOptions, "kv" | "app" | "port">;

/**
 * Returns whether a gateway uses Deno's default database, which all gateways on the machine that run from the same URL
 * share. On Deno Deploy, each application has its own.
 */
function usesDefaultDatabase({ kv, app }: StoreOptions): boolean {
  return kv === undefined && app === undefined && !isOnDeploy();
}

/** Returns whether a gateway shares Deno's default database without a part of its own, since its port is unknown. */
export function sharesDefaultDatabase(options: StoreOptions): boolean {
  return usesDefaultDatabase(options) && options.port === 0;
}

/** Returns the gateway's part of the store: in Deno's default database, that of its port. `storeOfApp()` handles apps. */
export function storeOfGateway(store: Store, options: StoreOptions): Store {
  const isPart = usesDefaultDatabase(options) && options.port !== 0;
  return isPart ? storeOfPort(store, options.port) : store;
}
