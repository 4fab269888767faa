import { ConfigurationError } from "../../config/variables/snapshot.ts";
import type { Environment } from "../../config/variables/tiers.ts";
import { messageOf } from "../../observe/log.ts";
import { isGranted } from "../../values/runtime.ts";
import type { StartOptions } from "../options/option_table.ts";
import { MASTER_KEY_VARIABLE, UsageError } from "../options/read_options.ts";
import type { Tls } from "../start/listen.ts";
import { readTextFile } from "./variable_sources.ts";

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
  const notAfter = await readNotAfter(cert).catch(() => undefined); // the listener rejects an invalid one
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
