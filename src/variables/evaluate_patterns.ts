/** A value and the regular expression that it has to match. */
export interface PatternCheck {
  readonly pattern: RegExp;
  readonly value: string;
}

/**
 * What came of a check. `timeout`: it took too long. `failed`: the engine gave up, for instance because the compiled pattern
 * would be too large. `skipped`: an earlier check took too long.
 */
export type PatternResult = "match" | "mismatch" | "timeout" | "failed" | "skipped";

/** How long a single check may take. Patterns take microseconds; a container may be paused for 100 ms at a time. */
export const PATTERN_TIMEOUT_MS = 1_000;

/**
 * Evaluates regular expressions with a deadline, off the main thread: one such as `(a+)+$` can take years.
 *
 * A worker from a `data:` URL needs no permission. It uses `node:vm`, whose timeout stops a running expression:
 * `Worker.terminate()` does not, so the thread would run on and keep the process from ending. Where there are no workers, the
 * main thread is blocked until the first timeout.
 *
 * @returns One result for each check. After the first timeout, no further check is evaluated.
 */
export async function evaluatePatterns(
  checks: readonly PatternCheck[],
  timeoutMs: number = PATTERN_TIMEOUT_MS,
): Promise<readonly PatternResult[]> {
  if (checks.length === 0) return []; // a worker takes some 50 ms to start
  try {
    return await evaluateInWorker(checks, timeoutMs);
  } catch {
    return evaluate(await import("node:vm"), checks, timeoutMs);
  }
}

async function evaluateInWorker(checks: readonly PatternCheck[], timeoutMs: number): Promise<readonly PatternResult[]> {
  const worker = new Worker(`data:text/javascript,${encodeURIComponent(WORKER)}`, { type: "module" });
  const { promise, resolve, reject } = Promise.withResolvers<readonly PatternResult[]>();
  worker.onmessage = ({ data }) => resolve(data);
  worker.onerror = (event) => {
    event.preventDefault(); // otherwise it would be an uncaught error
    reject(new Error(event.message));
  };
  worker.postMessage({ checks, timeoutMs });
  try {
    return await promise;
  } finally {
    worker.terminate();
  }
}

/** Also runs in the worker, from its source text: it must not refer to anything outside. */
function evaluate(vm: typeof import("node:vm"), checks: readonly PatternCheck[], timeout: number): PatternResult[] {
  const context = vm.createContext({});
  let isTooLate = false;
  return checks.map(({ pattern, value }) => {
    if (isTooLate) return "skipped";
    context["matches"] = () => pattern.test(value);
    try {
      return vm.runInContext("matches()", context, { timeout }) ? "match" : "mismatch";
    } catch (error) {
      isTooLate = (error as { code?: string }).code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
      return isTooLate ? "timeout" : "failed";
    }
  });
}

const WORKER = `import vm from "node:vm";
const evaluate = ${evaluate};
self.onmessage = ({ data }) => self.postMessage(evaluate(vm, data.checks, data.timeoutMs));`;
