import { join } from "@std/path/join";
import fs from "node:fs/promises";
import { parseEnv } from "node:util";
import { parseEnvFile } from "../../files/read_environment.ts";

/** An env file of a build tool. */
export interface BuildEnvFile {
  readonly path: string;
  /** The only mode that reads it; empty if all do. */
  readonly mode: string;
  /** Whether it is of one machine only. */
  readonly isLocal: boolean;
  readonly values: Values;
  /** The line of each name, counted from 1. */
  readonly lines: ReadonlyMap<string, number>;
}

type Values = Readonly<Record<string, string | undefined>>;

/** The env files of Vite. */
const ENV_FILE = /^\.env(?:\.(?!local$)([\w-]+))?(\.local)?$/;
/** Other files with such names: examples, and what other tools write. */
const NO_ENV_FILE =
  /^\.env\.(?:examples?|sample|template|tmpl|tpl|dist|defaults?|schema|vault|keys|bak|backup|old|orig)$/i;

/** Reads the env files of a directory, in the order of Vite, with the parser of Vite 8. */
export async function readBuildEnvFiles(
  directory: string,
): Promise<BuildEnvFile[]> {
  const files: BuildEnvFile[] = [];
  for (const entry of await fs.readdir(directory)) {
    const [isEnvFile, mode = "", local] = ENV_FILE.exec(entry) ?? [];
    if (isEnvFile === undefined || NO_ENV_FILE.test(entry)) continue;
    const path = join(directory, entry);
    const info = await fs.stat(path).catch(() => undefined); // a broken link
    if (info === undefined || info.isDirectory()) continue; // Python's tools make such directories
    const text = (await fs.readFile(path, "utf8")).replace(/^\uFEFF/, "");
    const values = parseEnv(text);
    const { lines } = parseEnvFile(text);
    files.push({ path, mode, isLocal: local !== undefined, values, lines });
  }
  const rank = ({ mode, isLocal }: BuildEnvFile) =>
    (mode === "" ? 0 : 2) + Number(isLocal);
  return files.sort((a, b) => rank(a) - rank(b));
}

const EXAMPLE = /^\.env\.(?:examples?|sample|template|dist|defaults?)$/i;

/** Returns the path of an example of an env file; `undefined` if there is none. */
export async function findExample(
  directory: string,
): Promise<string | undefined> {
  const entries = await fs.readdir(directory);
  const example = entries.find((entry) => EXAMPLE.test(entry));
  return example && join(directory, example);
}

/**
 * Returns the values of a mode. Each file overrides the ones before it.
 *
 * @param warnings To which it adds the references to nothing.
 */
export function valuesIn(
  mode: string,
  files: readonly BuildEnvFile[],
  warnings: Set<string>,
): ReadonlyMap<string, string> {
  const read = files.filter((file) => ["", mode].includes(file.mode));
  const all: Values = Object.assign({}, ...read.map(({ values }) => values));
  const entries = Object.entries(all).map(([name, value = ""]) => {
    const text = expand(value, all);
    for (const [reference] of text.matchAll(REFERENCE)) {
      warnings.add(`${name} refers to ${reference}, which no env file sets`);
    }
    const expanded = text.replace(REFERENCE, "").replaceAll("\\$", "$");
    return [name, expanded] as const;
  });
  return new Map(entries);
}

/** A reference to another variable: `$NAME`, `${NAME}` or `${NAME:-default}`. */
const REFERENCE =
  /(?<!\\)\$(?:\{(\w+)(?::?-([^{}]*))?\}|([A-Za-z_]\w*)|\{[^{}]*\})/g;

/** A value may refer to a value that refers to another one, or, by mistake, to itself. */
const MAX_REFERENCES = 20;

/** Replaces references as dotenv-expand does, which Vite uses; those to nothing stay. */
function expand(value: string, all: Values): string {
  let text = value;
  for (let count = 0; count < MAX_REFERENCES; count++) {
    text = text.replace(
      REFERENCE,
      (reference, braced, fallback, plain) =>
        all[braced ?? plain] || (fallback ?? reference),
    );
  }
  return text;
}
