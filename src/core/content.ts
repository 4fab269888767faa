import type { RouteContext } from "./http/routes.ts";
import type { Problems } from "./observe/problems.ts";
import type { GetConfigScript } from "./pages/config_script.ts";

/** The source of every response that is not the gateway's own, such as a directory or an upstream. */
export interface Content {
  /** The response to other methods is 405. @default {any method} */
  readonly methods?: readonly string[];
  /** Responds to a request. The configuration is injected into pages. */
  respond(
    request: Request,
    context: RouteContext,
    getConfigScript: GetConfigScript,
  ): Promise<Response>;
  /**
   * Returns the ID of the app's build that is delivered now: a text that changes when another build replaces it.
   *
   * @default {it is unknown}
   */
  build?(): Promise<string | undefined>;
  /** Returns what is wrong, for the health report. */
  problems?(): Problems;
  /** Closes what stays open between requests. */
  close(): void;
}
