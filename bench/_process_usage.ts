/** The resources that a process has used so far. */
export interface ProcessUsage {
  /** Microseconds over all threads, in steps of 10 ms. */
  readonly cpuUs: number;
  /** Resident bytes. */
  readonly rss: number;
}

/** The unit of CPU times in `/proc`: `USER_HZ`, which is 100 on every architecture that Deno supports (proc(5)). */
const US_PER_TICK = 10_000;
/** The fields `utime` and `stime` of `/proc/PID/stat`, counted from the one after the name (proc(5)). */
const UTIME = 11;
const STIME = 12;

/**
 * Reads the usage of another process from `/proc`.
 *
 * @throws {Deno.errors.NotFound} If there is no such process, or no `/proc`.
 */
export async function readUsage(pid: number): Promise<ProcessUsage> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" "); // a name may contain spaces
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(status) ?? [];
  return {
    cpuUs: (Number(fields[UTIME]) + Number(fields[STIME])) * US_PER_TICK,
    rss: Number(kib) * 1_024,
  };
}
