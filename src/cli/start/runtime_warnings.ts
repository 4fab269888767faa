import type { Log } from "../../observe/log.ts";

/**
 * Logs what Deno prints with `console.warn`, so that the output has only lines of the log.
 *
 * One such warning is that `Deno.serve` aborts `request.signal` after a successful response as well. The reverse proxy
 * needs that signal: nothing else reports a client that disconnects before the response. `--unstable-no-legacy-abort`,
 * which `deno.json` sets, stops both, but it does not apply to a package that is run from a registry.
 */
export function logRuntimeWarnings(log: Log): void {
  // deno-lint-ignore no-console -- it is replaced, not called
  console.warn = (...data: unknown[]) => log.warn("rep.runtime.warning", { detail: data.join(" ") });
}
