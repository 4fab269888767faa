import type { CommandOptions } from "./option_table.ts";
import { readTextFile } from "./sources.ts";

/** A certificate chain and its key, as PEM texts. */
export interface Tls {
  readonly cert: string;
  readonly key: string;
}

/**
 * Reads what `--tls-cert` and `--tls-key` name.
 *
 * @throws {ConfigurationError} If one of them cannot be read.
 */
export async function readTls(options: Pick<CommandOptions, "tls-cert" | "tls-key">): Promise<Tls | undefined> {
  const { "tls-cert": cert, "tls-key": key } = options;
  if (cert === undefined || key === undefined) return undefined;
  return { cert: await readTextFile(cert, "--tls-cert"), key: await readTextFile(key, "--tls-key") };
}
