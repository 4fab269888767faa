/** A value and the regular expression that it has to match. */
export interface PatternCheck {
  readonly pattern: RegExp;
  readonly value: string;
}

/**
 * What came of a check. `timeout`: it took too long. `failed`: the engine gave up, for instance because the compiled
 * pattern would be too large. `skipped`: an earlier check took too long.
 */
export type PatternResult = "match" | "mismatch" | "timeout" | "failed" | "skipped";

/** How long a single check may take. Patterns take microseconds; a container may be paused for 100 ms at a time. */
export const PATTERN_TIMEOUT_MS = 1_000;

/** How often a worker that ended unexpectedly is replaced: a timeout of `node:vm` may stop it a moment too late. */
const MAX_WORKERS = 3;

/**
 * Evaluates regular expressions with a deadline, off the main thread: one such as `(a+)+$` can take years.
 *
 * A worker from a `data:` URL needs no permission. It uses `node:vm`, whose timeout stops a running expression:
 * `Worker.terminate()` does not, so the thread would run on and keep the process from ending. Where there are no
 * workers, the patterns are evaluated on the main thread without a deadline, since a late timeout of `node:vm` would
 * stop the gateway itself.
 *
 * @returns One result for each check. After the first timeout, no further check is evaluated.
 */
export async function evaluatePatterns(
  checks: readonly PatternCheck[],
  timeoutMs: number = PATTERN_TIMEOUT_MS,
): Promise<readonly PatternResult[]> {
  if (checks.length === 0) return []; // a worker takes some 50 ms to start
  for (let workers = 1; workers <= MAX_WORKERS; workers++) {
    const worker = startWorker();
    if (worker === undefined) return checks.map(evaluateHere);
    try {
      return await evaluateInWorker(worker, checks, timeoutMs);
    } catch {
      continue; // the worker has been stopped; another one evaluates the checks again
    }
  }
  return checks.map(() => "failed");
}

/** Returns `undefined` where there are no workers. */
function startWorker(): Worker | undefined {
  try {
    return new Worker(`data:text/javascript,${encodeURIComponent(WORKER)}`, { type: "module" });
  } catch {
    return undefined; // the caller does without
  }
}

function evaluateHere({ pattern, value }: PatternCheck): PatternResult {
  try {
    return pattern.test(value) ? "match" : "mismatch";
  } catch {
    return "failed"; // the engine gave up
  }
}

async function evaluateInWorker(
  worker: Worker,
  checks: readonly PatternCheck[],
  timeoutMs: number,
): Promise<readonly PatternResult[]> {
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

/** Runs in the worker, from its source text: it must not refer to anything outside. */
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
