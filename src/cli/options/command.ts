import type { Environment } from "../../config/variables/tiers.ts";
import { readEnvironment } from "../../config/files/read_environment.ts";
import { EXPECTED_MASTER_KEY, parseMasterKey } from "../../keys/master_key.ts";
import { isGranted } from "../../values/runtime.ts";
import { loadKvToken, readSecret } from "../sources/secret_files.ts";
import { readManifest } from "../sources/sources.ts";
import {
  type CommandOptions,
  type OptionName,
  OPTIONS,
} from "./option_table.ts";
import {
  environmentWarnings,
  isSet,
  MASTER_KEY_VARIABLE,
  parseCommandLine,
  readOptions,
  UsageError,
} from "./read_options.ts";

/** The command to serve. */
export interface ServeCommand {
  readonly options: CommandOptions;
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
export async function readCommand(
  args: readonly string[],
  environment = readEnvironment(),
  onDeploy = isOnDeploy(),
): Promise<ServeCommand | "help" | "version"> {
  const { flags, help, version } = parseCommandLine(args);
  if (help) return "help";
  if (version) return "version";
  const { manifest: path } = readOptions({ flags, environment, manifest: {} });
  const manifest = path === undefined
    ? {}
    : (await readManifest(path)).settings;
  const options = readOptions({ flags, environment, manifest });
  await loadKvToken();
  const drain = onDeploy
    ? Math.min(options.drain, MAX_DEPLOY_DRAIN_MS)
    : options.drain;
  return {
    isSet: (name) => isSet(name, { flags, environment, manifest }),
    options: { ...options, "health-port": separatePort(options), drain },
    masterKey: await readMasterKey(environment),
    warnings: [
      ...environmentWarnings(environment),
      ...portWarnings(options),
      ...drainWarnings(options.drain, drain),
    ],
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

/** A health port that is 0 or equals the port is not a port of its own, as in REP's Go gateway. */
function separatePort(
  { port, "health-port": healthPort }: CommandOptions,
): number | undefined {
  return healthPort === 0 || healthPort === port ? undefined : healthPort;
}

/** Probes on the public port would get the app's page, or whatever the upstream says, with 200. */
function portWarnings(
  { port, "health-port": healthPort }: CommandOptions,
): string[] {
  if (healthPort !== port) return [];
  return [
    `--health-port ${port} is --port, where /livez, /readyz and /metrics are not served: expected another port`,
  ];
}

function drainWarnings(requested: number, drain: number): string[] {
  if (requested === drain || requested === OPTIONS.drain.default) return []; // the default was not requested
  return [
    `--drain is limited to ${
      drain / 1_000
    } s: Deno Deploy ends the process 5 s after SIGINT`,
  ];
}
