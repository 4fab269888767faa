/** Writes the table of options into docs/reference.md: `deno run -A tools/option_table.ts`. A test compares the two. */
import { defaultOf, flagOf } from "../src/command/options/help.ts";
import type { Option } from "../src/command/options/option_kinds.ts";
import { OPTION_NAMES, OPTIONS } from "../src/command/options/option_table.ts";

const FILE = "docs/reference.md";

/** The table, with the comments that enclose it. */
const TABLE =
  /(<!-- deno-fmt-ignore-start -->\n\n)[^]*?(\n\n<!-- deno-fmt-ignore-end -->)/;

/** Returns the table of options in Markdown. */
function optionTable(): string {
  const rows = OPTION_NAMES.map((name) => {
    const option: Option<unknown> = OPTIONS[name];
    const codes = [
      flagOf(name, option),
      option.manifest ?? "",
      defaultOf(option),
    ].map(code);
    return `| ${
      [...codes, option.help].map((cell) => cell.replaceAll("|", "\\|")).join(
        " | ",
      )
    } |`;
  });
  return [
    "| flag | manifest | default | meaning |",
    "| --- | --- | --- | --- |",
    ...rows,
  ].join("\n");
}

function code(text: string): string {
  return text === "" ? "" : `\`${text}\``;
}

/** Returns the reference with the current table. */
export function withOptionTable(reference: string): string {
  return reference.replace(
    TABLE,
    (_, start, end) => `${start}${optionTable()}${end}`,
  );
}

if (import.meta.main) {
  await Deno.writeTextFile(
    FILE,
    withOptionTable(await Deno.readTextFile(FILE)),
  );
}
