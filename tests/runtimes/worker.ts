/** Runs the checks of workers in one Durable Object, since a gateway with its streams lives longer than a request. */
import { type Result, resultOf } from "./check.ts";
import { WORKER_SUITE } from "./suite.ts";

interface Environment {
  CHECKS: {
    idFromName(name: string): unknown;
    get(id: unknown): { fetch(request: Request): Promise<Response> };
  };
}

/** The Durable Object. */
export class Checks {
  async fetch(): Promise<Response> {
    const results: Result[] = [];
    for (const check of WORKER_SUITE) results.push(await resultOf(check));
    return Response.json(results);
  }
}

export default {
  async fetch(request: Request, { CHECKS }: Environment): Promise<Response> {
    return await CHECKS.get(CHECKS.idFromName("one")).fetch(request);
  },
};
