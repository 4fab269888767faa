import type { Tls } from "../start/listen.ts";
import type { Environment } from "../../config/variables/tiers.ts";
import { ConfigurationError } from "../../config/variables/snapshot.ts";
import type { Manifest } from "../../config/variables/manifest.ts";
import { messageOf } from "../../observe/log.ts";
import { loadEnvFile } from "../../config/files/read_environment.ts";
import { readBoundedFile } from "../../values/local_files.ts";
import { type Clock, systemClock, withDeadline } from "../../values/clock.ts";
import { isGranted } from "../../values/runtime.ts";
import type { StartOptions } from "../options/option_table.ts";
import { MASTER_KEY_VARIABLE, UsageError } from "../options/read_options.ts";

/** The manifest of a project, as in REP's own command-line tool. */
export const DEFAULT_MANIFEST = ".rep.yaml";
/** A network file system may never answer. Env files that change take up to five seconds to be believed. */
const READ_TIMEOUT_MS = 15_000;

/**
 * Reads and parses a manifest, once: the gateway gets the result. It ignores the `settings`, which are options of the
 * command.
 *
 * @throws {ConfigurationError} If it cannot be read or is invalid.
 */
export async function readManifest(
  path: string,
  clock: Clock = systemClock,
): Promise<Manifest> {
  const text = await readTextFile(path, "--manifest", clock);
  const { parseCommandManifest } = await import(
    "../options/manifest_settings.ts"
  );
  const manifest = parseCommandManifest(text, path);
  if (manifest.issues.length === 0) return manifest;
  throw new ConfigurationError(manifest.issues);
}

/** Returns the manifest in the current directory; `undefined` if there is none, or if it cannot be read. */
export async function findDefaultManifest(): Promise<string | undefined> {
  if (!isGranted({ name: "read", path: DEFAULT_MANIFEST })) return undefined;
  const isThere = await Deno.stat(DEFAULT_MANIFEST).then(
    () => true,
    () => false,
  );
  return isThere ? DEFAULT_MANIFEST : undefined;
}

/** The options that name a source. */
export type SourceOptions = Pick<
  StartOptions,
  "env-file" | "watch-path" | "manifest" | "hot-reload-mode"
>;

/** Paths, and the flag that sets them. */
interface FlagPaths {
  readonly flag: string;
  readonly paths: readonly string[];
}

/** Returns the paths of the env files. A mounted ConfigMap may be set by `--watch-path` alone (REP-RFC-0001 §9.3). */
export function resolveEnvPaths(options: SourceOptions): FlagPaths {
  const {
    "env-file": envFiles,
    "watch-path": watchPath,
    "hot-reload-mode": mode,
  } = options;
  const isMount = envFiles.length === 0 && mode === "file_watch" &&
    watchPath !== undefined;
  return isMount
    ? { flag: "--watch-path", paths: [watchPath] }
    : { flag: "--env-file", paths: envFiles };
}

/** Returns the paths to watch for changes of the variables: what is read, and `--watch-path`. */
export function watchedPaths(options: SourceOptions): string[] {
  const { "watch-path": watchPath } = options;
  const paths = sourcePaths(options);
  return watchPath === undefined ? paths : [watchPath, ...paths];
}

/** Returns the paths of the files that options name as sources. */
export function sourcePaths(
  { "env-file": envFiles, manifest }: SourceOptions,
): string[] {
  return [...envFiles, manifest].filter((path) => path !== undefined);
}

/**
 * Reads an env file or directory that an option names, once.
 *
 * @throws {ConfigurationError} If it cannot be read.
 */
export async function readEnvPath(
  path: string,
  flag: string,
): Promise<Environment> {
  const { variables } = await readPaths(
    { flag, paths: [path] },
    () => loadEnvFile(path),
    systemClock,
  );
  return variables;
}

/**
 * Reads a file that an option names.
 *
 * @throws {ConfigurationError} If it cannot be read.
 */
export function readTextFile(
  path: string,
  flag: string,
  clock: Clock = systemClock,
): Promise<string> {
  const read = async () =>
    new TextDecoder().decode(await readBoundedFile(path));
  return readPaths({ flag, paths: [path] }, read, clock);
}

/** Returns a message if the permission to read the path is missing. Reading it would prompt. */
export function missingRead(
  flag: string,
  path: string | undefined,
): string | undefined {
  if (path === undefined || isGranted({ name: "read", path })) return undefined;
  return `Cannot read ${flag} "${path}": expected --allow-read=${path}`;
}

/**
 * Reads what an option names.
 *
 * @throws {ConfigurationError} If it cannot be read, or not in time.
 */
export async function readPaths<T>(
  { flag, paths }: FlagPaths,
  read: () => Promise<T>,
  clock: Clock,
): Promise<T> {
  const missing = paths.map((path) => missingRead(flag, path)).filter((issue) =>
    issue !== undefined
  );
  if (missing.length > 0) throw new ConfigurationError(missing);
  try {
    return await withDeadline(read(), READ_TIMEOUT_MS, clock, () => {
      return new Error(
        `expected to be read within ${READ_TIMEOUT_MS / 1000} s`,
      );
    });
  } catch (cause) {
    const isComplete = cause instanceof ConfigurationError; // its issues name the env files
    const issues = isComplete
      ? cause.issues
      : paths.map((path) => `"${path}": ${messageOf(cause)}`);
    throw new ConfigurationError(
      issues.map((issue) => `Cannot read ${flag} ${issue}`),
      { cause },
    );
  }
}

/** The variable from which `Deno.openKv()` reads the token of a `denokv` server or of Deno Deploy. */
const KV_TOKEN_VARIABLE = "DENO_KV_ACCESS_TOKEN";

/**
 * Returns a secret that is set by a variable, or is in the file that the variable with `_FILE` names, as Docker and
 * Kubernetes mount secrets. White space around the text of the file is not part of the secret.
 *
 * @param expected What the secret is, for messages.
 * @throws {UsageError} If both are set.
 * @throws {ConfigurationError} If the file cannot be read.
 */
export async function readSecret(
  name: string,
  environment: Environment,
  expected: string,
): Promise<string | undefined> {
  const value = environment[name];
  const path = environment[`${name}_FILE`];
  if (!path) return value || undefined; // in Compose files, an empty variable means "not set"
  if (value) {
    throw new UsageError(
      `Cannot use ${name} and ${name}_FILE: expected one of them`,
    );
  }
  const text = (await readTextFile(path, `${name}_FILE`).catch((error) => {
    throw new ConfigurationError(
      [`${messageOf(error)}; expected ${expected}`],
      { cause: error },
    );
  })).trim();
  if (text === "") {
    throw new UsageError(
      `Cannot read ${name}_FILE "${path}": expected ${expected}, got an empty file`,
    );
  }
  return text;
}

/** Returns the paths of the files that contain secrets of the command. */
export function secretPaths(): string[] {
  const names = [MASTER_KEY_VARIABLE, KV_TOKEN_VARIABLE].map((name) =>
    `${name}_FILE`
  );
  const granted = names.filter((variable) =>
    isGranted({ name: "env", variable })
  ); // it would prompt
  return granted.map((variable) => Deno.env.get(variable) ?? "").filter((
    path,
  ) => path !== "");
}

/**
 * Sets `DENO_KV_ACCESS_TOKEN` to the text of the file that `DENO_KV_ACCESS_TOKEN_FILE` names, if it is set, since
 * `Deno.openKv()` accepts a token only from there.
 *
 * @throws {UsageError} If both are set, or the file is empty.
 * @throws {ConfigurationError} If the file cannot be read.
 */
export async function loadKvToken(): Promise<void> {
  const names = [KV_TOKEN_VARIABLE, `${KV_TOKEN_VARIABLE}_FILE`];
  if (!names.every((variable) => isGranted({ name: "env", variable }))) return; // it would prompt
  const token = await readSecret(
    KV_TOKEN_VARIABLE,
    Object.fromEntries(names.map((name) => [name, Deno.env.get(name) ?? ""])),
    "a token",
  );
  if (token !== undefined) Deno.env.set(KV_TOKEN_VARIABLE, token);
}

/** The options that name the files. */
export type TlsOptions = Partial<Pick<StartOptions, "tls-cert" | "tls-key">>;

/**
 * Reads the files that `--tls-cert` and `--tls-key` name.
 *
 * @returns `undefined` if the options are not set.
 * @throws {ConfigurationError} If one of the files cannot be read.
 */
export async function readTls(options: TlsOptions): Promise<Tls | undefined> {
  const { "tls-cert": certFile, "tls-key": keyFile } = options;
  if (certFile === undefined || keyFile === undefined) return undefined;
  const [cert, key] = await Promise.all([
    readTextFile(certFile, "--tls-cert"),
    readTextFile(keyFile, "--tls-key"),
  ]);
  const notAfter = await readNotAfter(cert).catch(() => undefined); // whoever listens rejects what cannot be used
  return { cert, key, certFile, keyFile, notAfter };
}

/** The Node layer is loaded only if there is a certificate. */
async function readNotAfter(cert: string): Promise<Date> {
  const { X509Certificate } = await import("node:crypto");
  return new Date(new X509Certificate(cert).validTo);
}

/** Returns the paths of the certificate and its key, to watch them for changes. */
export function tlsPaths(options: TlsOptions): string[] {
  return [options["tls-cert"], options["tls-key"]].filter((path) =>
    path !== undefined
  );
}
