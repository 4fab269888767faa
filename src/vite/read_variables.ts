import type { Environment } from "../config/variables/tiers.ts";
import {
  readEnvFiles,
  readEnvironment,
} from "../config/files/read_environment.ts";
import { ConfigurationError } from "../config/variables/snapshot.ts";

/** Variables, and where each of them is set. */
interface LocatedVariables {
  readonly variables: Environment;
  /** The path and the line; nothing for a variable of the process's environment. */
  readonly places: ReadonlyMap<string, string>;
}

/**
 * Reads the variables of env files, of which the last takes precedence; the environment of the process takes precedence
 * over all of them.
 *
 * @throws {ConfigurationError} If a file cannot be read or is invalid: with its path and the line of each issue.
 */
export async function readVariables(
  paths: readonly string[],
): Promise<LocatedVariables> {
  const files = await readEnvFiles(paths).catch(rejectWithLinks);
  const places = new Map(
    files.flatMap(({ lines }, index) =>
      [...lines].map(([name, line]) =>
        [name, `${paths[index]}:${line}`] as const
      )
    ),
  );
  const environment = readEnvironment();
  for (const name of Object.keys(environment)) places.delete(name);
  return {
    variables: Object.assign(
      {},
      ...files.map(({ variables }) => variables),
      environment,
    ),
    places,
  };
}

/** Terminals and editors open `path:line` at a click if it is not within quotes. */
function rejectWithLinks(error: unknown): never {
  if (!(error instanceof ConfigurationError)) throw error;
  throw new ConfigurationError(
    error.issues.map((issue) => issue.replace(/^"(.*?)":/, "$1:")),
    { cause: error },
  );
}
