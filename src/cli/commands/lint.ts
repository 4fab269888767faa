import { globToRegExp } from "@std/path/glob-to-regexp";
import { relative } from "@std/path/relative";
import fs from "node:fs/promises";
import {
  detectInCode,
  type Detection,
  detectSecret,
} from "../../config/variables/guardrails.ts";
import { listBuildFiles } from "./build_files.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_table.ts";
import { escapeInvisible, terminalJson } from "./terminal_text.ts";

/** Where a file has a value that looks like a secret. Both numbers begin with 1. */
interface Finding extends Detection {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The output of most bundlers. */
const DEFAULT_DIRECTORY = "dist";
/** The files of a build that have text. */
const TEXT_FILE = /\.(c?js|mjs|json|map|html?|css|svg|xml|txt|webmanifest)$/i;

/** Checks the files of a build with the guardrails of PUBLIC values, and prints where they found something. */
export async function lint(
  line: CommandArguments,
  io: CommandIo,
): Promise<number> {
  const directories = line.args.length > 0 ? line.args : [DEFAULT_DIRECTORY];
  const lists = await Promise.all(directories.map(async (directory) => {
    const files = await listBuildFiles(directory);
    return files.filter((file) =>
      isSelected(relative(directory, file) || file, line)
    );
  }));
  const files = [...new Set(lists.flat())];
  if (files.length === 0) {
    throw new TypeError(
      `Cannot lint ${
        directories.join(", ")
      }: expected files of a build, got none`,
    );
  }
  const findings: Finding[] = [];
  for (const file of files) {
    const found = lintText(await fs.readFile(file, "utf8"), file);
    for (const finding of found) findings.push(finding);
  }
  printFindings(findings, files.length, line.json, io);
  return findings.length === 0 ? 0 : 1;
}

function isSelected(
  path: string,
  { pattern, exclude }: Pick<CommandArguments, "pattern" | "exclude">,
): boolean {
  const isIncluded = pattern.length === 0
    ? TEXT_FILE.test(path)
    : pattern.some((glob) => matches(path, glob));
  return isIncluded && !exclude.some((glob) => matches(path, glob));
}

/** A pattern without a slash applies in every folder, as in `.gitignore`. */
function matches(path: string, glob: string): boolean {
  return globToRegExp(glob.includes("/") ? glob : `**/${glob}`).test(path);
}

function lintText(text: string, file: string): Finding[] {
  return text.split("\n").flatMap((line, index) =>
    lintLine(line).map((found) => ({ file, line: index + 1, ...found }))
  );
}

/**
 * Checks a line between its quotes, so that no pairs have to be found: a pair may be in a comment or a regular
 * expression. Code is checked for known formats only, since minified code has a high entropy.
 */
function lintLine(line: string): (Detection & { column: number })[] {
  let column = 1;
  return line.split(/["'`]/).flatMap((piece) => {
    const start = column;
    column += piece.length + 1;
    const detection = isData(piece) ? detectSecret(piece) : detectInCode(piece);
    return detection ? [{ column: start, ...detection }] : [];
  });
}

/** Larger data is an image, a font or a WebAssembly module. */
const MAX_SECRET_LENGTH = 1_024;

/** Names in code may be as random as a secret, but hardly any secret of this length has no digit. */
function isData(piece: string): boolean {
  if (piece.length > MAX_SECRET_LENGTH) return false;
  return /^[\w+/=.:~-]{20,}\\?$/.test(piece) && /\d/.test(piece) &&
    !isAlphabet(piece);
}

/** The alphabets of base64 and of generators of ids have each character once. */
function isAlphabet(piece: string): boolean {
  return piece.length >= 32 && new Set(piece).size === piece.length;
}

function printFindings(
  findings: readonly Finding[],
  files: number,
  json: boolean,
  io: CommandIo,
): void {
  if (json) return io.print(terminalJson(findings, 2));
  for (const { file, line, column, detection, detail } of findings) {
    io.print(
      escapeInvisible(`${file}:${line}:${column}: ${detection}: ${detail}`),
    );
  }
  const noun = findings.length === 1
    ? "value that looks like a secret"
    : "values that look like secrets";
  io.printError(`${findings.length} ${noun} in ${files} files`);
}
