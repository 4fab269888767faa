import type { Log } from "../../core/observe/log.ts";
import { isGranted } from "../../core/values/runtime.ts";
import type { Start } from "../options/read_start.ts";

/** File descriptors for everything but streams: other connections, such as those of probes, files, and the store. */
const RESERVED = 256;

/** To try more would delay the start by more than a tenth of a second, and a limit above this is set on purpose. */
const MAX_TRIED = 10_000;

/**
 * Lowers `--max-streams` to what the process has file descriptors for, and logs a warning. A process that runs out of
 * them accepts no connections, reads no files and reaches no store.
 *
 * Call it before anything else needs a file descriptor: for a moment, there may be none left.
 */
export function limitStreams(start: Start, log: Log): Start {
  const wanted = start.options["max-streams"];
  const enough = wanted + RESERVED;
  if (!start.options["hot-reload"]) return start; // there are no streams
  const available = countDescriptors(enough);
  if (available >= enough) return start;
  const possible = Math.max(available - RESERVED, Math.ceil(available / 2));
  log.warn("rep.start.warning", {
    detail:
      `--max-streams ${wanted} is lowered to ${possible}: the process has only ${available} file descriptors; ` +
      `expected a limit (ulimit -n) above ${enough}`,
  });
  return {
    ...start,
    options: { ...start.options, "max-streams": possible },
  };
}

/** Returns how many file descriptors there are for the process; `Infinity` if there are enough, or nobody knows. */
function countDescriptors(enough: number): number {
  if (!isGranted({ name: "read" })) return Infinity;
  return readLimit() ?? tryToOpen(Math.min(enough, MAX_TRIED));
}

/** Reads the limit, which Deno has raised as far as possible. */
function readLimit(): number | undefined {
  try {
    const limits = Deno.readTextFileSync("/proc/self/limits");
    const [, limit = Infinity] = /^Max open files +(\d+)/m.exec(limits) ?? [];
    return Number(limit);
  } catch {
    return undefined; // only Linux has this file, and Deno opens it only with -A
  }
}

/** Opens a file that often, or until that fails, since nothing else shows the limit. */
function tryToOpen(times: number): number {
  const files: Deno.FsFile[] = [];
  try {
    while (files.length < times) files.push(Deno.openSync("/dev/null"));
    return Infinity;
  } catch {
    return files.length || Infinity; // Windows has no such file, and no such limit
  } finally {
    for (const file of files) file.close();
  }
}
