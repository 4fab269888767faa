import axe from "axe-core";
import type { Page } from "playwright-core";

/** Returns what axe finds in a page: the rule, and the elements. */
export async function findViolations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate("axe.run()") as {
    violations: { id: string; nodes: { html: string }[] }[];
  };
  return violations.map(({ id, nodes }) =>
    `${id}: ${nodes.map(({ html }) => html).join(" ")}`
  );
}
