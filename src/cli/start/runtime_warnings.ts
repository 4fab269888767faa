import type { Log } from "../../observe/log.ts";

/** The flag that a warning of `Deno.serve` recommends. */
const UNWANTED_FLAG = "--unstable-no-legacy-abort";

/**
 * Logs what Deno prints with `console.warn`, so that the output has only lines of the log.
 *
 * The warning that `Deno.serve` aborts `request.signal` after a successful response as well is left out: nobody who runs
 * the gateway can do anything about it. The reverse proxy needs that signal, since nothing else reports a client that
 * disconnects before the response, and stops listening to it when the response begins.
 */
export function logRuntimeWarnings(log: Log): void {
  // deno-lint-ignore no-console -- it is replaced, not called
  console.warn = (...data: unknown[]) => {
    const detail = data.join(" ");
    if (!detail.includes(UNWANTED_FLAG)) {
      log.warn("rep.runtime.warning", { detail });
    }
  };
}
