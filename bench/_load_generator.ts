import {
  findProgram,
  foldersOnPath,
  THIS_MACHINE,
} from "../tools/find_program.ts";
import { tcpLoad } from "./_tcp_load.ts";
import { wrkLoad } from "./_wrk.ts";

/** A load of HTTP requests. */
export interface LoadOptions {
  readonly port: number;
  readonly path: string;
  /** Connections that each have one request in flight. */
  readonly connections: number;
  readonly seconds: number;
  /** If set, each request comes from another client, as `X-Forwarded-For` says, counted from this one. */
  readonly firstClient?: number | undefined;
}

/** What came of it. */
export interface Load {
  readonly perSecond: number;
  readonly requests: number;
  /** Responses whose status is not 2xx or 3xx. */
  readonly failed: number;
}

/** Runs a load to its end. */
export type LoadGenerator = (options: LoadOptions) => Promise<Load>;

/** Returns `wrk`, which BENCH_WRK names or which is on the PATH, or else a client in this process, which is slower. */
export async function findLoadGenerator(
  useWrk: boolean,
): Promise<{ name: string; run: LoadGenerator }> {
  const program = useWrk
    ? Deno.env.get("BENCH_WRK") ||
      await findProgram(["wrk"], foldersOnPath(THIS_MACHINE), THIS_MACHINE)
    : undefined;
  if (program === undefined) return { name: "built-in client", run: tcpLoad };
  return { name: "wrk", run: (options) => wrkLoad(program, options) };
}
