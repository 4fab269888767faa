import { storeOfPort } from "../../store/app_store.ts";
import type { Store } from "../../store/store.ts";
import { type OptionName, OPTIONS, type StartOptions } from "./option_table.ts";
import type { Environment } from "../../config/variables/tiers.ts";
import { readEnvironment } from "../../config/files/read_environment.ts";
import { EXPECTED_MASTER_KEY, parseMasterKey } from "../../keys/master_key.ts";
import { isGranted } from "../../values/runtime.ts";
import { loadKvToken, readSecret } from "../sources/secret_files.ts";
import { readManifest } from "../sources/variable_sources.ts";
import {
  environmentWarnings,
  isSet,
  MASTER_KEY_VARIABLE,
  parseCommandLine,
  readOptions,
  UsageError,
} from "./read_options.ts";

/** The command to serve. */
export interface Start {
  readonly options: StartOptions;
  readonly masterKey: Uint8Array<ArrayBuffer> | undefined;
  /** Problems that do not prevent the start. */
  readonly warnings: readonly string[];
  /** Returns whether an option is set anywhere, even if to its default. */
  readonly isSet: (name: OptionName) => boolean;
}

/** Deno Deploy kills the process 5 s after SIGINT; the rest is for the last responses and for closing the store. */
const MAX_DEPLOY_DRAIN_MS = 3_000;

/**
 * Reads the command from its arguments, the environment and the manifest, and its secrets from their files.
 *
 * @param environment `REP_…` variables; by default those of the process.
 * @param onDeploy Whether the process runs on Deno Deploy, where `--drain` is limited to 3 s.
 * @throws {UsageError} If an option is unknown or invalid.
 * @throws {ConfigurationError} If the manifest cannot be read or is invalid.
 */
export async function readStart(
  args: readonly string[],
  environment = readEnvironment(),
  onDeploy = isOnDeploy(),
): Promise<Start | "help" | "version"> {
  const { flags, help, version } = parseCommandLine(args);
  if (help) return "help";
  if (version) return "version";
  const { manifest: path } = readOptions({ flags, environment, manifest: {} });
  const manifest = path === undefined
    ? {}
    : (await readManifest(path)).settings;
  const options = readOptions({ flags, environment, manifest });
  await loadKvToken();
  const warnings = environmentWarnings(environment);

  // Probes on the public port would get a 200 with the app's page or a response of the upstream.
  const { port, "health-port": healthPort } = options;
  if (healthPort === port) {
    warnings.push(
      `--health-port ${port} is --port, where /livez, /readyz and /metrics are not served: expected another port`,
    );
  }
  // As in REP's Go gateway, a health port that is 0 or equals the port is not separate.
  const isSeparate = healthPort !== 0 && healthPort !== port;

  const maxDrain = onDeploy ? MAX_DEPLOY_DRAIN_MS : Infinity;
  const drain = Math.min(options.drain, maxDrain);
  if (drain < options.drain && options.drain !== OPTIONS.drain.default) { // the default was not requested
    warnings.push(
      `--drain is limited to ${
        drain / 1_000
      } s: Deno Deploy ends the process 5 s after SIGINT`,
    );
  }
  return {
    isSet: (name) => isSet(name, { flags, environment, manifest }),
    options: {
      ...options,
      "health-port": isSeparate ? healthPort : undefined,
      drain,
    },
    masterKey: await readMasterKey(environment),
    warnings,
  };
}

/** Whether the process runs on Deno Deploy, which sets this variable. */
export function isOnDeploy(): boolean {
  return isGranted({ name: "env", variable: "DENO_DEPLOY" }) &&
    Deno.env.get("DENO_DEPLOY") === "true";
}

async function readMasterKey(
  environment: Environment,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const text = await readSecret(
    MASTER_KEY_VARIABLE,
    environment,
    EXPECTED_MASTER_KEY,
  );
  if (text === undefined) return undefined;
  try {
    return parseMasterKey(text);
  } catch (error) {
    const name = environment[MASTER_KEY_VARIABLE]
      ? MASTER_KEY_VARIABLE
      : `${MASTER_KEY_VARIABLE}_FILE`;
    throw new UsageError(`Cannot read ${name}: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** The options that determine the database of a gateway, and its part of it. */
export type StoreOptions = Pick<StartOptions, "kv" | "app" | "port">;

/**
 * Returns whether a gateway shares Deno's default database with all others of the machine that run from the same URL,
 * without a part of its own. `--app` names such a part, and so does a port other than 0.
 */
export function sharesDefaultDatabase(
  { kv, app, port }: StoreOptions,
): boolean {
  return kv === undefined && app === undefined && port === 0 && !isOnDeploy();
}

/**
 * Returns the gateway's part of the store that was opened for it: without `--kv` and `--app`, the part of its port. The
 * part of its app is selected elsewhere. On Deno Deploy, the default database is the application's own.
 */
export function storeOfGateway(
  store: Store,
  { kv, app, port }: StoreOptions,
): Store {
  const isNamed = kv !== undefined || app !== undefined;
  if (isNamed || port === 0 || isOnDeploy()) return store;
  return storeOfPort(store, port);
}
