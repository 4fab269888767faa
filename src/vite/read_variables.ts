import { readFile } from "node:fs/promises";
import process from "node:process";
import type { Environment } from "../config/classify.ts";
import { pickRepVariables } from "../config/environment.ts";
import { parseEnvFile } from "../config/parse_env_file.ts";
import { ConfigurationError } from "../config/snapshot.ts";
import { messageOf } from "../observe/log.ts";

/** Variables, and where each of them is set. */
export interface LocatedVariables {
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
export async function readVariables(paths: readonly string[]): Promise<LocatedVariables> {
  const files = await Promise.all(paths.map(readEnvFile));
  const issues = files.flatMap(({ issues }) => issues);
  if (issues.length > 0) throw new ConfigurationError(issues);
  const environment = pickRepVariables(process.env as Environment);
  const places = new Map(files.flatMap(({ places }) => [...places]));
  for (const name of Object.keys(environment)) places.delete(name);
  return { variables: Object.assign({}, ...files.map(({ variables }) => variables), environment), places };
}

/** Reads an env file, and reports what is wrong with it. */
export async function readEnvFile(path: string): Promise<LocatedVariables & { readonly issues: readonly string[] }> {
  try {
    const { variables, lines, issues } = parseEnvFile(await readFile(path, "utf8"));
    return {
      variables: pickRepVariables(Object.fromEntries(variables)),
      places: new Map([...lines].map(([name, line]) => [name, `${path}:${line}`])),
      issues: issues.map(({ line, detail }) => `${line === undefined ? path : `${path}:${line}`}: ${detail}`),
    };
  } catch (error) {
    return { variables: {}, places: new Map(), issues: [`${path}: ${messageOf(error)}`] };
  }
}
