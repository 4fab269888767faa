import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import { messageOf } from "../../core/observe/log.ts";
import { readVariable } from "../../core/values/runtime.ts";
import type { StartOptions } from "../options/option_table.ts";
import { MASTER_KEY_VARIABLE, UsageError } from "../options/read_options.ts";
import type { Tls } from "../start/listen.ts";
import { readTextFile } from "../../files/read_named.ts";

/** The variable from which `Deno.openKv()` reads the token of a `denokv` server or of Deno Deploy. */
const KV_TOKEN_VARIABLE = "DENO_KV_ACCESS_TOKEN";

/**
 * Returns the secret in a variable, or in the file whose path is in the variable with `_FILE`, as with Docker and
 * Kubernetes. Whitespace around the text of the file is not part of the secret.
 *
 * @param read Returns a variable of the environment.
 * @param expected What the secret is, for messages.
 * @throws {UsageError} If both are set.
 * @throws {ConfigurationError} If the file cannot be read.
 */
export async function readSecret(
  name: string,
  read: (variable: string) => string | undefined,
  expected: string,
): Promise<string | undefined> {
  const value = read(name);
  const path = read(`${name}_FILE`);
  if (!path) return value || undefined; // an empty variable counts as not set, as in Compose files
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

/** Returns the paths of the files from which {@linkcode readSecret} reads. */
export function secretPaths(): string[] {
  const variables = [MASTER_KEY_VARIABLE, KV_TOKEN_VARIABLE];
  const paths = variables.map((name) => readVariable(`${name}_FILE`) ?? "");
  return paths.filter((path) => path !== "");
}

/**
 * Sets `DENO_KV_ACCESS_TOKEN` to the text of the file that `DENO_KV_ACCESS_TOKEN_FILE` names, if that is set:
 * `Deno.openKv()` reads a token only from `DENO_KV_ACCESS_TOKEN`.
 *
 * @throws {UsageError} If both are set, or the file is empty.
 * @throws {ConfigurationError} If the file cannot be read.
 */
export async function loadKvToken(): Promise<void> {
  const token = await readSecret(KV_TOKEN_VARIABLE, readVariable, "a token");
  if (token !== undefined) Deno.env.set(KV_TOKEN_VARIABLE, token);
}

/** The options that name the certificate and its key. */
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

/** Loads the Node.js compatibility layer, so it is called only if there is a certificate. */
async function readNotAfter(cert: string): Promise<Date> {
  const { X509Certificate } = await import("node:crypto");
  return new Date(new X509Certificate(cert).validTo);
}

/** Returns the paths of the certificate and its key. */
export function tlsPaths(options: TlsOptions): string[] {
  return [options["tls-cert"], options["tls-key"]].filter((path) =>
    path !== undefined
  );
}
