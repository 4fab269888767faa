/**
 * Reads the pages for users as a reader of English would: with Harper, which finds mistakes of grammar without a network,
 * and with the project's own list of phrases.
 *
 * Of Harper's rules, those about grammar are used: its spelling does not know the names of options, and its rules of
 * style contradict lists such as `pages, streams and keys`.
 */
import { assertEquals } from "@std/assert";
import { Dialect, LocalLinter } from "harper.js";
import { binary } from "harper.js/binary";
import { markdownIn } from "./_pages.ts";

const GRAMMAR = ["Agreement", "Grammar", "Repetition", "Redundancy", "Usage"];

/** Phrases at which readers stop, and what to write instead. */
const PHRASES = [
  [/\bthose (who|whose)\b/gi, "you, or the noun: users, teams"],
  [/\bwhoever\b/gi, "anyone who"],
  [/\bmeanwhile\b/gi, "until then, at the same time"],
  [/\bbesides,/gi, "also"],
  [/\bwherefrom\b|\bwhereof\b|\bthereof\b/gi, "a sentence of its own"],
  [/; else\b|\. Else\b/g, "otherwise"],
  [/\bhas to\b|\bhave to\b/gi, "must, or the imperative"],
  [/\bfor none,/gi, "to avoid it"],
  [/\bso that it needs\b/gi, "so it needs"],
  [/\bsome \d/gi, "about"],
  [/\bhardly takes\b|\bis hardly ever\b/gi, "adds almost no"],
  [/\bThis page is for\b/g, "what the page shows"],
  [/\bon its way\b/gi, "in transit"],
] as const;

/** Returns a page without code, quotations, comments and the padding of tables, in the same lines. */
function proseOf(text: string) {
  const blank = (code: string) => code.replaceAll(/[^\n]/g, "");
  return text
    .replaceAll(/^ *```[^]*?^ *```$/gm, blank)
    .replaceAll(/<!--[^]*?-->/g, blank)
    .replaceAll(/^\|[ |-]+\|$/gm, "")
    .replaceAll(/`[^`\n]*`/g, "code")
    .replaceAll(/"[^"\n]*"/g, "quotation")
    .replaceAll(/\]\([^)\s]+\)/g, "]")
    .replaceAll(/ {2,}/g, " ");
}

/** Returns the line of an index, as editors count them. */
function lineOf(text: string, index: number) {
  return text.slice(0, index).split("\n").length;
}

async function readPages() {
  const pages = new Map<string, string>();
  for (const folder of [".", "docs"]) {
    for (const path of await markdownIn(folder)) {
      pages.set(path, await Deno.readTextFile(path));
    }
  }
  return pages;
}

Deno.test("the pages for users use none of the phrases at which readers stop", async () => {
  const found: string[] = [];
  for (const [path, text] of await readPages()) {
    const prose = proseOf(text);
    for (const [phrase, better] of PHRASES) {
      for (const { 0: match, index } of prose.matchAll(phrase)) {
        found.push(`${path}:${lineOf(prose, index)}: "${match}"; ${better}`);
      }
    }
  }
  assertEquals(found, []);
});

Deno.test("Harper finds no mistake of grammar in the pages for users", async () => {
  const linter = new LocalLinter({ binary, dialect: Dialect.American });
  const found: string[] = [];
  for (const [path, text] of await readPages()) {
    const prose = proseOf(text);
    for (const lint of await linter.lint(prose, { language: "markdown" })) {
      if (!GRAMMAR.includes(lint.lint_kind())) continue;
      const { start } = lint.span();
      const line = lineOf(prose, start);
      found.push(
        `${path}:${line}: "${lint.get_problem_text()}": ${lint.message()}`,
      );
    }
  }
  assertEquals(found, []);
});
