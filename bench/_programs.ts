import {
  findProgram,
  foldersOnPath,
  THIS_MACHINE,
} from "../tools/find_program.ts";

/** Folders of servers that a user's PATH often does not have. */
const SYSTEM_FOLDERS = ["/usr/sbin", "/usr/local/sbin"];

/**
 * Returns the path of a program that an environment variable names, or that is on the PATH; `undefined` if it is
 * missing.
 */
export async function findOnMachine(
  variable: string,
  name: string,
): Promise<string | undefined> {
  return Deno.env.get(variable) ||
    await findProgram([name], [
      ...foldersOnPath(THIS_MACHINE),
      ...SYSTEM_FOLDERS,
    ], THIS_MACHINE);
}

/** Programs of others that are measured for comparison. */
export interface Peers {
  readonly goGateway?: string | undefined;
  readonly mercure?: string | undefined;
  readonly nginx?: string | undefined;
}

/** What a row is measured with. */
export interface BenchContext {
  /** Empty unless `peers` was asked for. */
  readonly peers: Peers;
  /** nginx as an upstream and for the ceiling. */
  readonly nginx: string | undefined;
  /** What is not measured, and why. */
  readonly skipped: string[];
}
