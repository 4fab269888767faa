import type { HttpWork } from "./_http_work.ts";
import { findLoadGenerator, type LoadGenerator } from "./_load_generator.ts";
import type { ProcessUsage } from "./_process_usage.ts";
import {
  alternate,
  type BySubject,
  mapSubjects,
  type Row,
  type Subject,
} from "./_row.ts";
import { type LoadedClients, MAX_CLIENTS_PER_LOAD } from "./_stored_keys.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** The sizes of a row. `wrk` is 1 to use it if it is installed. */
export const HTTP_SIZES = { connections: 50, seconds: 1, rounds: 7, wrk: 1 };

/** What one load of a server measured. */
interface Measurement extends LoadedClients {
  readonly perSecond: number;
  /** CPU time of the server per request, in microseconds; `undefined` where there is no `/proc`. */
  readonly cpuUs: number | undefined;
}

/** What the loads of all servers measured. */
interface LoadedRow {
  readonly row: Row;
  /** Those of the gateway's last load. */
  readonly lastClients: readonly LoadedClients[];
}

/** Loads the servers in turn. */
export async function measureServers(
  servers: BySubject<SubjectProcess>,
  work: Omit<HttpWork, "args">,
  sizes: typeof HTTP_SIZES,
): Promise<LoadedRow> {
  const { run } = await findLoadGenerator(sizes.wrk === 1);
  let firstClient = 0;
  const measures = mapSubjects(servers, (server, subject) => () => {
    firstClient += MAX_CLIENTS_PER_LOAD;
    return measureLoad(server, { work, sizes, run, firstClient, subject });
  });
  await alternate(1, measures); // the code of the servers is not compiled yet
  const all = await alternate(sizes.rounds, measures);
  const row: Row = {
    name: work.name,
    work: work.work,
    unit: "requests/s",
    rounds: mapSubjects(
      all,
      (loads) => loads.map(({ perSecond }) => perSecond),
    ),
    cpuUs: mapSubjects(
      all,
      (loads) => loads.flatMap(({ cpuUs }) => cpuUs ?? []),
    ),
  };
  return { row, lastClients: all.gateway?.slice(-1) ?? [] };
}

/** The keys that a client over its limit still gets, since its window slides. */
const MAX_KEYS = 20;

/** What a server is loaded with. */
interface LoadWork {
  readonly work: Omit<HttpWork, "args">;
  readonly sizes: typeof HTTP_SIZES;
  readonly run: LoadGenerator;
  readonly firstClient: number;
  readonly subject: Subject;
}

async function measureLoad(
  server: SubjectProcess,
  {
    work: { path, isOverLimit, hasDistinctClients },
    sizes,
    run,
    firstClient,
    subject,
  }: LoadWork,
): Promise<Measurement> {
  const before = await usageOf(server);
  const options = {
    ...sizes,
    port: server.port,
    path,
    ...hasDistinctClients && { firstClient },
  };
  const { perSecond, requests, failed } = await run(options).catch((error) => {
    throw new Error(
      `Cannot load ${subject}: ${
        error instanceof Error ? error.message : error
      }`,
      { cause: error },
    );
  });
  const after = await usageOf(server);
  const isExpected = isOverLimit ? requests - failed <= MAX_KEYS : failed === 0;
  if (requests === 0 || !isExpected) {
    const expected = isOverLimit
      ? "all of the requests"
      : "none of the requests";
    throw new Error(
      `Cannot measure ${subject}: expected ${expected} to be rejected, got ${failed} of ${requests}`,
    );
  }
  return {
    perSecond,
    requests,
    firstClient,
    cpuUs: before && after && (after.cpuUs - before.cpuUs) / requests,
  };
}

async function usageOf(
  server: SubjectProcess,
): Promise<ProcessUsage | undefined> {
  try {
    return await server.usage();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined; // there is no /proc
    throw error;
  }
}
