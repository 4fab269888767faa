/** Runs all checks, prints a line of JSON for each, and ends: nothing may keep the process. */
import { resultOf } from "./check.ts";
import { SUITE } from "./suite.ts";

for (const check of SUITE) {
  const result = await resultOf(check);
  // deno-lint-ignore no-console -- the one output that all runtimes have
  console.log(JSON.stringify(result));
}
