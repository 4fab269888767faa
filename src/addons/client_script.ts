import type { Representations } from "../content/coding/representations.ts";
import type { Addon } from "../core/addon.ts";
import { READ_METHODS } from "../core/http/routes.ts";
import { send } from "../core/http/send.ts";

/**
 * Serves the browser module at `GET /rep/client.js`, for pages without a bundler. The spec permits endpoints of our own.
 *
 * @param sharesBytes Whether all responses leave through `Deno.serve`.
 */
export function clientScript(sharesBytes: boolean): Addon {
  let script: Promise<Representations> | undefined;
  return () => ({
    routes: {
      "/rep/client.js": {
        methods: READ_METHODS,
        async handler(request) {
          script ??= loadScript(sharesBytes);
          const representations = await script;
          return await send(request, representations.select(request.headers));
        },
      },
    },
  });
}

/** A gateway whose pages have a client of their own does not load this one. */
async function loadScript(sharesBytes: boolean): Promise<Representations> {
  const module = await import("./client_script/represent.ts");
  return await module.representClientScript(sharesBytes);
}
