/** Runs all checks, prints a line of JSON for each, and ends: nothing may keep the process. */
import { SUITE } from "./suite.ts";

for (const { name, run } of SUITE) {
  const error = await run().then(
    () => null,
    (error: Error) => error.stack ?? String(error),
  );
  // deno-lint-ignore no-console -- the one output that all runtimes have
  console.log(JSON.stringify({ name, error }));
}
