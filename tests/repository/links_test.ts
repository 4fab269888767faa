/** Checks the links of every Markdown page, and that the pages are short. */
import { assertEquals } from "@std/assert";
import { dirname, join } from "@std/path";
import { countUserPages, countWords, MAX_WORDS } from "../../tools/words.ts";
import { markdownIn } from "./_pages.ts";

const PAGES = [
  ...await markdownIn("."),
  ...await markdownIn("docs"),
  ...await markdownIn("docs/development"),
];

/** Returns a page without its code, where brackets are no links and `#` is no heading. */
async function readProse(path: string) {
  return (await Deno.readTextFile(path)).replaceAll(/^ *```[^]*?^ *```$/gm, "");
}

/** Returns the targets of the links and images of a page. */
async function linksOf(path: string): Promise<string[]> {
  const prose = (await readProse(path)).replaceAll(/`[^`\n]*`/g, "code");
  return [
    ...prose.matchAll(/\]\(([^)\s]+)\)/g),
    ...prose.matchAll(/<img [^>]*src="([^"]+)"/g),
  ].map(([, target]) => String(target));
}

/** Returns the anchors that GitHub and JSR give to the headings of a page. */
async function anchorsOf(path: string): Promise<string[]> {
  const headings = (await readProse(path)).matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, text]) =>
    String(text).toLowerCase().replaceAll(/[^\p{Letter}\p{Number} _-]/gu, "")
      .replaceAll(" ", "-")
  );
}

/** Returns what is wrong with a link; `undefined` if it leads somewhere. */
async function problemOf(
  page: string,
  link: string,
): Promise<string | undefined> {
  if (/^https?:/.test(link)) {
    return URL.canParse(link) ? undefined : `${page}: ${link} is no URL`;
  }
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? page : join(dirname(page), path);
  if (await Deno.stat(target).catch(() => undefined) === undefined) {
    return `${page}: ${link} does not exist`;
  }
  const hasAnchor = anchor === undefined ||
    (await anchorsOf(target)).includes(anchor);
  return hasAnchor ? undefined : `${page}: ${link} names no heading`;
}

Deno.test("every relative link and anchor in README.md and docs/ leads somewhere", async () => {
  const problems: (string | undefined)[] = [];
  let count = 0;
  for (const page of PAGES) {
    for (const link of await linksOf(page)) {
      problems.push(await problemOf(page, link));
      count++;
    }
  }
  assertEquals(problems.filter((problem) => problem !== undefined), []);
  assertEquals([PAGES.includes("README.md"), count > 50], [true, true]);
});

Deno.test("docs/README.md links to every page and document in docs/", async () => {
  const names: string[] = [];
  for (const folder of ["", "development/"]) {
    for await (const { name } of Deno.readDir(`docs/${folder}`)) {
      names.push(folder + name);
    }
  }
  const links = (await linksOf("docs/README.md")).map((link) =>
    link.split("#")[0]
  );
  const pages = names.filter((name) =>
    /\.(md|yaml|json)$/.test(name) && name !== "README.md"
  );
  assertEquals(pages.filter((name) => !links.includes(name)), []);
});

Deno.test("llms.txt links to README.md and every page and document for users", async () => {
  const links = await linksOf("llms.txt");
  const names = await Array.fromAsync(Deno.readDir("docs"), ({ name }) => name);
  const pages = names.filter((name) =>
    /\.(md|yaml)$/.test(name) && name !== "README.md"
  ).map((name) => `docs/${name}`);
  assertEquals(links.toSorted(), ["README.md", ...pages].toSorted());
});

Deno.test("the pages for users have at most as many words as anybody reads", async () => {
  const counts = await countUserPages();
  const sum = counts.values().reduce((sum, count) => sum + count, 0);
  assertEquals(
    [sum <= MAX_WORDS, sum > 10_000],
    [true, true],
    `${sum} words: see deno run -A tools/words.ts`,
  );
});

Deno.test("countWords() leaves out tables that a tool writes, and no others", () => {
  const table = "| flag | meaning |\n| --- | --- |\n| `--port N` | A port |\n";
  const end = "<!-- deno-fmt-ignore-end -->";
  const texts = {
    "of the options":
      `<!-- generated from src/options.ts by tools/option_table.ts; a test compares them -->\n<!-- deno-fmt-ignore-start -->\n${table}${end}`,
    "of measurements":
      `<!-- deno-fmt-ignore-start -->\n<!-- costs: written by tools/performance.ts -->\n${table}${end}`,
    "in another format": `<!-- deno-fmt-ignore-start -->\n${table}${end}`,
    "by hand": table,
  };
  const counts = Object.entries(texts).map(([name, text]) =>
    [name, countWords(`two words\n${text}\nand three more`)] as const
  );
  assertEquals(Object.fromEntries(counts), {
    "of the options": 5,
    "of measurements": 5 + 1, // its first comment
    "in another format": 5 + 6 + 2, // its comments
    "by hand": 5 + 6,
  });
});

Deno.test("the pages have two tables that a tool writes", async () => {
  const marked: string[] = [];
  for (const page of (await countUserPages()).keys()) {
    const text = await Deno.readTextFile(page);
    if (/\bby tools\/\w+\.ts\b/.test(text)) marked.push(page);
  }
  assertEquals(marked, ["docs/performance.md", "docs/reference.md"]);
});
