/**
 * Prints the number of words in each page, and in all pages for users together:
 *
 *     deno run -A tools/words.ts
 *
 * A test keeps that sum within {@linkcode MAX_WORDS}.
 */

/** Nobody reads more. */
export const MAX_WORDS = 24_000;

/**
 * A table that a tool writes from code or measurements: from the comment that names the tool, to the end of what
 * `deno fmt` ignores.
 */
const GENERATED =
  /<!-- [^>]*\bby tools\/\w+\.ts\b[^>]*-->[^]*?<!-- deno-fmt-ignore-end -->/g;

/**
 * Returns the number of words in a text of Markdown, code included; table bars, bullets and dashes are no words.
 *
 * Readers look things up in tables that a tool writes, and do not read them. They are not counted, so a new option does
 * not force out prose.
 */
export function countWords(text: string): number {
  return text.replaceAll(GENERATED, "").split(/\s+/).filter((part) =>
    /[\p{Letter}\p{Number}]/u.test(part)
  ).length;
}

/** Users read these pages once, when they compare gateways or move to this one. */
const NOT_COUNTED = ["docs/conformance.md", "docs/migrating.md"];

/** Returns the paths of all pages for users; those in `docs/development/` are for contributors. */
async function userPages(): Promise<string[]> {
  const docs = await Array.fromAsync(
    Deno.readDir("docs"),
    ({ name }) => `docs/${name}`,
  );
  const pages = docs.filter((path) =>
    path.endsWith(".md") && !NOT_COUNTED.includes(path)
  );
  return ["README.md", ...pages.toSorted()];
}

/** Returns the number of words in each page for users. */
export async function countUserPages(): Promise<Map<string, number>> {
  const pages = await userPages();
  const counts = pages.map(async (page) =>
    [page, countWords(await Deno.readTextFile(page))] as const
  );
  return new Map(await Promise.all(counts));
}

if (import.meta.main) {
  const counts = await countUserPages();
  const sum = counts.values().reduce((sum, count) => sum + count, 0);
  const lines = [...counts, [`of ${MAX_WORDS}`, sum] as const].map((
    [page, count],
  ) => `${String(count).padStart(6)} ${page}\n`);
  await Deno.stdout.write(new TextEncoder().encode(lines.join("")));
}
