import { parseMasterKey } from "../crypto/master_key.ts";
import { OPTIONS, type Settings } from "./option_table.ts";
import { isOnDeploy } from "./platform.ts";
import { MASTER_KEY_VARIABLE, readCommandLine, readSettings, unknownVariables, UsageError } from "./read_options.ts";
import { isGranted } from "../permissions.ts";
import { readEnvironment } from "../variables/environment.ts";
import type { ManifestSettings } from "../variables/manifest.ts";
import { parseCommandManifest } from "./manifest_settings.ts";
import { readTextFile } from "./sources.ts";
import type { Environment } from "../variables/classify.ts";
import { ConfigurationError } from "../variables/snapshot.ts";

/** What the command is asked to do. */
export type Command =
  | { readonly kind: "help" }
  | { readonly kind: "version" }
  | {
    readonly kind: "serve";
    readonly settings: Settings;
    readonly masterKey: Uint8Array<ArrayBuffer> | undefined;
    /** What the start goes on without, or what was most likely meant otherwise. */
    readonly remarks: readonly string[];
  };

/** Deno Deploy kills 5 s after SIGINT; what is left of them is for the store and the last answers. */
const MAX_DEPLOY_DRAIN_MS = 3_000;

/**
 * Reads what the command is asked to do, from its arguments, the environment and the manifest.
 *
 * @param environment `REP_…` variables; by default the process's.
 * @param onDeploy Whether it runs on Deno Deploy, where there is no time for a longer `--drain` than 3 s.
 * @throws {UsageError} If it was called wrongly.
 * @throws {ConfigurationError} If the manifest cannot be read.
 */
export async function readCommand(
  args: readonly string[],
  environment = readEnvironment(),
  onDeploy = isOnDeploy(),
): Promise<Command> {
  const { flags, help, version } = readCommandLine(args);
  if (help) return { kind: "help" };
  if (version) return { kind: "version" };
  const withoutManifest = readSettings({ flags, environment, manifest: {} });
  const manifest = await manifestSettings(withoutManifest.manifest);
  const settings = readSettings({ flags, environment, manifest });
  const drain = onDeploy ? Math.min(settings.drain, MAX_DEPLOY_DRAIN_MS) : settings.drain;
  return {
    kind: "serve",
    settings: { ...settings, drain },
    masterKey: readMasterKey(environment),
    remarks: [...environmentWarnings(environment), ...drainWarnings(settings.drain, drain)],
  };
}

/** What is wrong with the manifest's variables is found again, and told, when the first snapshot is made. */
async function manifestSettings(path: string | undefined): Promise<ManifestSettings> {
  if (path === undefined) return {};
  const { manifest, issues } = parseCommandManifest(await readTextFile(path, "--manifest"));
  if (issues.length > 0) throw new ConfigurationError(issues);
  return manifest.settings;
}

function readMasterKey(environment: Environment): Uint8Array<ArrayBuffer> | undefined {
  const text = environment[MASTER_KEY_VARIABLE];
  if (!text) return undefined;
  try {
    return parseMasterKey(text);
  } catch (error) {
    throw new UsageError(`Cannot read ${MASTER_KEY_VARIABLE}: ${(error as Error).message}`, { cause: error });
  }
}

function drainWarnings(wanted: number, drain: number): string[] {
  if (wanted === drain || wanted === OPTIONS.drain.default) return []; // nobody asked for the default
  return [`--drain is ${drain / 1_000} s here: Deno Deploy ends the process 5 s after SIGINT`];
}

function environmentWarnings(environment: Environment): string[] {
  const noEnvironment =
    "without --allow-env, no environment variable is read, neither REP_PUBLIC_* and its kin nor options";
  return [
    ...(isGranted({ name: "env" }) ? [] : [noEnvironment]),
    ...unknownVariables(environment).map((name) => `${name} is not an option, and was ignored`),
  ];
}
