import type { CommandOptions } from "../options/option_table.ts";
import { readTextFile } from "../sources/sources.ts";

/** A certificate chain and its private key, both PEM. */
export interface Tls {
  readonly cert: string;
  readonly key: string;
  /** The paths of both, for messages. */
  readonly certFile: string;
  readonly keyFile: string;
  /** When the certificate ends; `undefined` if it cannot be read. */
  readonly notAfter: Date | undefined;
}

/** The options that name the files. */
export type TlsOptions = Partial<Pick<CommandOptions, "tls-cert" | "tls-key">>;

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
