import type { Addon } from "../core/addon.ts";
import { READ_METHODS } from "../core/http/routes.ts";

/** Serves the browser module at `GET /rep/client.js`, for pages without a bundler. */
export const clientScript: Addon = () => ({
  routes: {
    "/rep/client.js": {
      methods: READ_METHODS,
      // A gateway whose pages have a client of their own does not load this one.
      async handler(request) {
        const module = await import("./client_script/respond.ts");
        return await module.respondWithClientScript(request);
      },
    },
  },
});
