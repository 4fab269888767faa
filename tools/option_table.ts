/** Writes the table of options into README.md: `deno run -A tools/option_table.ts`. A test compares the two. */
import { optionTable } from "../src/cli/help.ts";

/** What stands before and after the table. */
const PLACE = /(<!-- deno-fmt-ignore-start -->\n\n)[^]*?(\n\n<!-- deno-fmt-ignore-end -->)/;

/** The README with the table as it has to be. */
export function withOptionTable(readme: string): string {
  return readme.replace(PLACE, (_, before, after) => `${before}${optionTable()}${after}`);
}

if (import.meta.main) {
  await Deno.writeTextFile("README.md", withOptionTable(await Deno.readTextFile("README.md")));
}
