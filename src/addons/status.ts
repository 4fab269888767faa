import type { Addon } from "../core/addon.ts";
import { READ_METHODS } from "../core/http/routes.ts";
import type { StatusOptions } from "./status/status.ts";

/** Returns the add-on that serves the page for operators at `GET /status`, on the port that stays internal. */
export function status(options: StatusOptions): Addon {
  return (parts) => ({
    internalRoutes: {
      "/status": {
        methods: READ_METHODS,
        // A gateway whose operators do not look at the status does not load the page.
        async handler(request, context) {
          const { respondWithStatus } = await import("./status/render.ts");
          return await respondWithStatus(
            request,
            context,
            parts,
            options,
          );
        },
      },
    },
  });
}
