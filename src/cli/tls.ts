import type { CommandOptions } from "./option_table.ts";
import { readTextFile } from "./sources.ts";

/** A certificate chain and its private key. */
export interface Tls {
  /** PEM. */
  readonly cert: string;
  /** PEM. */
  readonly key: string;
  /** The paths of both, for messages. */
  readonly certFile: string;
  readonly keyFile: string;
}

/**
 * Reads the files that `--tls-cert` and `--tls-key` name.
 *
 * @returns `undefined` if the options are not set.
 * @throws {ConfigurationError} If one of the files cannot be read.
 */
export async function readTls(options: Pick<CommandOptions, "tls-cert" | "tls-key">): Promise<Tls | undefined> {
  const { "tls-cert": certFile, "tls-key": keyFile } = options;
  if (certFile === undefined || keyFile === undefined) return undefined;
  const [cert, key] = await Promise.all([readTextFile(certFile, "--tls-cert"), readTextFile(keyFile, "--tls-key")]);
  return { cert, key, certFile, keyFile };
}
