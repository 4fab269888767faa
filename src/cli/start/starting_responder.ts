import {
  createHealthEndpoint,
  createReadyEndpoint,
  LIVE_ENDPOINT,
  startingHealth,
} from "../../endpoints/health.ts";
import type { Gateway } from "../../gateway_interface.ts";
import { Problem } from "../../http/problem.ts";
import {
  type ConnectionInfo,
  createResponder,
  type Responder,
} from "../../http/respond.ts";
import {
  createRoute,
  createRoutes,
  type Routes,
  type RouteTable,
} from "../../http/routes.ts";
import type { Log } from "../../observe/log.ts";
import { noMetrics } from "../../observe/metrics.ts";
import { noTelemetry } from "../../observe/telemetry.ts";
import type { Clock } from "../../values/clock.ts";
import type { StartOptions } from "../options/option_table.ts";

/** Options of {@linkcode StartingResponder}. */
interface StartingOptions {
  readonly options: StartOptions;
  /** The gateway that requests wait for. */
  readonly ready: Promise<Gateway>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Responds in place of a gateway that is not ready: health at once, with 503 `starting`; other requests wait. */
export class StartingResponder {
  readonly #ready: Promise<Gateway>;
  readonly #routes: Routes;
  readonly #healthRoutes: Routes;
  readonly #respond: Responder;

  constructor({ options, ready, clock, log }: StartingOptions) {
    const starting = startingHealth(clock);
    const health = createHealthEndpoint(starting);
    const table: RouteTable = options["health-port"] === undefined
      ? { "/rep/health": health }
      : {};
    const healthTable: RouteTable = {
      "/rep/health": health,
      "/livez": LIVE_ENDPOINT,
      "/readyz": createReadyEndpoint(starting),
    };
    this.#ready = ready;
    this.#routes = createRoutes(table, options["base-path"]);
    this.#healthRoutes = createRoutes(healthTable, "");
    this.#respond = createResponder({
      isTrusted: () => false,
      isAllowedHost: undefined,
      warnOfProxy: undefined,
      accessLog: false,
      log,
      telemetry: noTelemetry,
      metrics: noMetrics,
      clock,
    });
  }

  fetch(
    request: Request,
    info?: ConnectionInfo,
  ): Response | Promise<Response> {
    const respond = (gateway: Gateway) => gateway.fetch(request, info);
    return this.#fetch(request, this.#routes, respond);
  }

  fetchHealth(request: Request): Response | Promise<Response> {
    const respond = (gateway: Gateway) => gateway.fetchHealth(request);
    return this.#fetch(request, this.#healthRoutes, respond);
  }

  /** @param respond What responds to a request that has waited. */
  #fetch(
    request: Request,
    routes: Routes,
    respond: (gateway: Gateway) => Response | Promise<Response>,
  ): Response | Promise<Response> {
    const handler = async () => await respond(await this.#gateway());
    const waiting = createRoute({ handler }, "/*");
    const find = (path: string) => routes.get(path) ?? waiting;
    return this.#respond(request, undefined, find);
  }

  async #gateway(): Promise<Gateway> {
    try {
      return await this.#ready;
    } catch {
      // start() reports the error
      throw new Problem(503, { detail: "The gateway could not start" });
    }
  }
}
