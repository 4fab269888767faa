import { CHANGE_CHECKS } from "./change_checks.ts";
import type { Check } from "./check.ts";
import { VISIBLE_CLAUSES } from "./clauses.ts";
import { KEY_CHECKS } from "./key_checks.ts";
import { Launcher, type Target } from "./launcher.ts";
import { PAGE_CHECKS } from "./page_checks.ts";
import { VARIABLE_CHECKS } from "./variable_checks.ts";

/** Every check. Those with the same setup follow each other, since a gateway is started for each setup. */
export const CHECKS: readonly Check[] = [
  ...VARIABLE_CHECKS,
  ...PAGE_CHECKS,
  ...KEY_CHECKS,
  ...CHANGE_CHECKS,
];

/** What a check has found. */
export interface Finding {
  readonly id: Check["id"];
  /** The clause. */
  readonly name: string;
  /** What the gateway does otherwise; `undefined` if it conforms. */
  readonly problem: string | undefined;
}

/** Asks a gateway, one check after the other. */
export async function* ask(
  target: Target,
  checks: readonly Check[] = CHECKS,
): AsyncGenerator<Finding> {
  await using launcher = new Launcher(target);
  for (const { id, run } of checks) {
    const problem = await run(launcher).then(
      () => undefined,
      (error: Error) => error.message,
    );
    yield { id, name: VISIBLE_CLAUSES[id], problem };
  }
}
