/** Runs the checks of workers in one Durable Object, since a gateway with its streams lives longer than a request. */
import { SUITE } from "./suite.ts";

interface Environment {
  readonly CHECKS: {
    idFromName(name: string): unknown;
    get(id: unknown): { fetch(request: Request): Promise<Response> };
  };
}

/** The Durable Object. */
export class Checks {
  async fetch(): Promise<Response> {
    const results: { name: string; error: string | null }[] = [];
    for (const { name, run, notInWorkers } of SUITE) {
      if (notInWorkers !== undefined) continue;
      results.push({
        name,
        error: await run().then(
          () => null,
          (error: Error) => error.stack ?? String(error),
        ),
      });
    }
    return Response.json(results);
  }
}

export default {
  async fetch(request: Request, { CHECKS }: Environment): Promise<Response> {
    return await CHECKS.get(CHECKS.idFromName("one")).fetch(request);
  },
};
