import { resolve } from "node:path";
import { formatValue } from "../core/config/variables/quote.ts";
import type { EnvPath } from "../files/read_environment.ts";

/** An env file that may be missing, as in `env_file` of Docker Compose. */
export interface RepEnvFile {
  /** The path. */
  path: string;
  /** Whether the file has to exist. @default {true} */
  required?: boolean;
}

/**
 * Returns the absolute paths of the files that the option `envFile` names: one or more, which have to exist unless it says
 * otherwise.
 */
export function envPathsOf(
  envFile: string | RepEnvFile | readonly (string | RepEnvFile)[],
  root = ".",
): EnvPath[] {
  return [envFile].flat().map((file) => {
    const { path, required = true }: Partial<RepEnvFile> =
      typeof file === "string" ? { path: file } : file ?? {};
    if (typeof path !== "string" || path === "") {
      throw new TypeError(
        `Cannot use envFile: expected a path such as "app.env", got ${
          formatValue(path ?? file)
        }`,
      );
    }
    const remedy = `; if it may be absent, expected envFile: { path: ${
      JSON.stringify(path)
    }, required: false }, and values in the environment`;
    return { path: resolve(root, path), required, remedy };
  });
}
