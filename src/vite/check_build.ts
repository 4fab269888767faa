import { detectInCode } from "../config/variables/guardrails.ts";
import { loadEnvFile } from "../config/files/read_environment.ts";
import { classify, type Variable } from "../config/variables/tiers.ts";
import type { ViteOutput } from "./vite.ts";

/** Shorter values are found in any code. */
const MIN_VALUE_LENGTH = 8;

/**
 * Checks the files of a build for the known formats of secrets, and for the SENSITIVE and SERVER values of the env files,
 * as far as these exist where the build runs.
 *
 * @throws {Error} If there are any: with the file and the name of the variable, but not the value.
 */
export async function checkBuild(
  files: readonly ViteOutput[],
  envFiles: readonly string[],
): Promise<void> {
  const secrets = (await Promise.all(envFiles.map(secretsIn))).flat();
  const findings = files.flatMap((file) =>
    findIn(textOf(file), secrets).map((what) => `${file.fileName}: ${what}`)
  );
  if (findings.length === 0) return;
  throw new Error(
    `Cannot build: the output contains secrets\n${findings.join("\n")}`,
  );
}

async function secretsIn(path: string): Promise<Variable[]> {
  const file = await loadEnvFile(path).catch(ignoreMissing);
  return classify(file?.variables ?? {}).variables.filter(({ tier, value }) =>
    tier !== "public" && value.length >= MIN_VALUE_LENGTH
  );
}

function ignoreMissing(error: unknown): undefined {
  if ((error as { code?: string }).code !== "ENOENT") throw error;
}

function findIn(text: string, secrets: readonly Variable[]): string[] {
  const format = detectInCode(text);
  const values = secrets.filter(({ value }) =>
    text.includes(value) || text.includes(JSON.stringify(value).slice(1, -1))
  );
  return [
    ...(format ? [format.detail] : []),
    ...values.map(({ name }) => `the value of ${name}`),
  ];
}

function textOf(file: ViteOutput): string {
  if (file.type === "chunk") return file.code;
  return typeof file.source === "string"
    ? file.source
    : new TextDecoder().decode(file.source);
}
