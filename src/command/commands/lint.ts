import { globToRegExp } from "@std/path/glob-to-regexp";
import { relative } from "@std/path/relative";
import fs from "node:fs/promises";
import {
  detectInCode,
  type Detection,
  detectSecret,
} from "../../core/config/variables/guardrails.ts";
import { listBuildFiles } from "./build_files.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_table.ts";
import { escapeInvisible } from "../../core/values/visible_text.ts";
import { terminalJson } from "./terminal_text.ts";

/** The place of a value that looks like a secret. Both numbers begin with 1. */
interface Finding extends Detection {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The output directory of most bundlers. */
const DEFAULT_DIRECTORY = "dist";
/** The files of a build that contain text. */
const TEXT_FILE = /\.(c?js|mjs|json|map|html?|css|svg|xml|txt|webmanifest)$/i;

/** Checks the files of a build with the guardrails of PUBLIC values, and prints where something looks like a secret. */
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
    const names = directories.join(", ");
    throw new TypeError(
      `Cannot lint ${names}: expected files of a build, got none`,
    );
  }
  const findings: Finding[] = [];
  for (const file of files) {
    const text = await fs.readFile(file, "utf8");
    for (const [index, code] of text.split("\n").entries()) {
      for (const found of lintLine(code)) {
        findings.push({ file, line: index + 1, ...found });
      }
    }
  }
  if (line.json) io.print(terminalJson(findings));
  else {
    for (const { file, line, column, detection, detail } of findings) {
      const place = `${file}:${line}:${column}`;
      io.print(escapeInvisible(`${place}: ${detection}: ${detail}`));
    }
    io.printError(
      `${findings.length} values that look like secrets in ${files.length} files`,
    );
  }
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

/** A pattern without a slash applies to every directory, as in `.gitignore`. */
function matches(path: string, glob: string): boolean {
  return globToRegExp(glob.includes("/") ? glob : `**/${glob}`).test(path);
}

/**
 * Checks every piece of a line between two quotes. It does not look for pairs of quotes, since a quote may be in a
 * comment or a regular expression. It checks code for known formats only, since minified code has a high entropy.
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

/** Longer data is an image, a font or a WebAssembly module. */
const MAX_SECRET_LENGTH = 1_024;

/** Returns whether a piece may be a secret. Names in code may look as random, but rarely contain digits. */
function isData(piece: string): boolean {
  if (piece.length > MAX_SECRET_LENGTH) return false;
  return /^[\w+/=.:~-]{20,}\\?$/.test(piece) && /\d/.test(piece) &&
    !isAlphabet(piece);
}

/** Returns whether a piece contains each character once, as the alphabets of base64 and of ID generators do. */
function isAlphabet(piece: string): boolean {
  return piece.length >= 32 && new Set(piece).size === piece.length;
}
