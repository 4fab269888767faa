import type { Metrics } from "../../core/observe/metrics.ts";

/** The common part of `Deno`, which does not declare `cpuUsage`, and the `process` of Node.js and Bun. */
interface ProcessUsage {
  memoryUsage(): { readonly rss: number };
  /** In microseconds. */
  cpuUsage(): { readonly user: number; readonly system: number };
}

/**
 * Observes CPU time, memory and start of the process. Values that a runtime does not provide are left out, such as the
 * number of open files, which Deno provides only with `--allow-all`.
 */
export function observeProcess(metrics: Metrics): void {
  metrics.observe("process.cpu.time", orNothing(cpuSeconds));
  metrics.observe("process.memory.usage", orNothing(residentBytes));
  const startTime = performance.timeOrigin / 1_000;
  metrics.observe("process.start_time", () => startTime || undefined); // workers do not know it
}

function cpuSeconds(): number {
  const { user, system } = processUsage().cpuUsage();
  return (user + system) / 1e6;
}

function residentBytes(): number {
  return processUsage().memoryUsage().rss;
}

/** Deno has a `process` as well, for which it would load its Node layer. */
function processUsage(): ProcessUsage {
  const runtime: unknown = globalThis.Deno ??
    Reflect.get(globalThis, "process");
  return runtime as ProcessUsage;
}

function orNothing(read: () => number): () => number | undefined {
  return () => {
    try {
      return read();
    } catch {
      return undefined; // workers have no process
    }
  };
}
