/** Writes the table of options into README.md: `deno run -A tools/option_table.ts`. A test compares the two. */
import { optionTable } from "../src/cli/help.ts";

/** The table, with the comments that enclose it. */
const TABLE = /(<!-- deno-fmt-ignore-start -->\n\n)[^]*?(\n\n<!-- deno-fmt-ignore-end -->)/;

/** Returns the README with the current table. */
export function withOptionTable(readme: string): string {
  return readme.replace(TABLE, (_, start, end) => `${start}${optionTable()}${end}`);
}

if (import.meta.main) {
  await Deno.writeTextFile("README.md", withOptionTable(await Deno.readTextFile("README.md")));
}
