import {
  createHealthEndpoint,
  createReadyEndpoint,
  LIVE_ENDPOINT,
  startingHealth,
} from "../../core/endpoints/health.ts";
import type { Gateway } from "../../gateway_interface.ts";
import { Problem } from "../../core/http/problem.ts";
import { createResponder } from "../../core/http/respond.ts";
import {
  createRoute,
  createRoutes,
  type Routes,
  type RouteTable,
} from "../../core/http/routes.ts";
import type { Log } from "../../core/observe/log.ts";
import { noMetrics } from "../../core/observe/metrics.ts";
import { noTelemetry } from "../../core/observe/telemetry.ts";
import type { Clock } from "../../core/values/clock.ts";
import type { StartOptions } from "../options/option_table.ts";

/** The part of a gateway that answers requests. */
type Answers = Pick<Gateway, "fetch" | "fetchHealth">;

interface StartingOptions {
  readonly options: StartOptions;
  readonly version: string;
  /** The gateway that requests wait for. */
  readonly created: Promise<Answers>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Responds until there is a gateway: to requests for health at once, with 503 `starting`. All other requests wait for the
 * gateway, which rejects them while it waits for its store.
 */
export function createStartingResponder(
  { options, version, created, clock, log }: StartingOptions,
): Answers {
  const starting = startingHealth(version, clock);
  const health = createHealthEndpoint(() => starting.report());
  const hasHealthPort = options["health-port"] !== undefined;
  const table: RouteTable = hasHealthPort ? {} : { "/rep/health": health };
  const routes = createRoutes(table, options["base-path"]);
  const healthRoutes = createRoutes({
    "/rep/health": health,
    "/livez": LIVE_ENDPOINT,
    "/readyz": createReadyEndpoint(starting),
  }, "");
  const responder = createResponder({
    scheme: undefined,
    isTrusted: () => false,
    isAllowedHost: undefined,
    warnOfProxy: undefined,
    accessLog: false,
    log,
    telemetry: noTelemetry,
    metrics: noMetrics,
    clock,
  });

  async function createdGateway(): Promise<Answers> {
    try {
      return await created;
    } catch {
      // start() throws the same error, which is logged
      throw new Problem(503, { detail: "The gateway could not start" });
    }
  }

  /** @param answer Answers a request that waited. */
  function respond(
    request: Request,
    routes: Routes,
    answer: (gateway: Answers) => Response | Promise<Response>,
  ): Response | Promise<Response> {
    const handler = async () => await answer(await createdGateway());
    const waiting = createRoute({ handler }, "/*");
    return responder(
      request,
      undefined,
      (path) => routes.get(path) ?? waiting,
    );
  }

  return {
    fetch: (request, info) =>
      respond(request, routes, (gateway) => gateway.fetch(request, info)),
    fetchHealth: (request) =>
      respond(request, healthRoutes, (gateway) => gateway.fetchHealth(request)),
  };
}
