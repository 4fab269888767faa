import { respond } from "@rep/gateway/server";
import handler, { createServerEntry } from "@tanstack/react-start/server-entry";

/** In development, the plugin for Vite does all of this; a build that prerenders pages has no values. */
const isOff = import.meta.env.DEV || process.env["TSS_PRERENDERING"] === "true";

export default createServerEntry({
  fetch(request: Request) {
    if (isOff) return handler.fetch(request);
    return respond(request, () => handler.fetch(request), {
      envFile: { path: "app.env", required: false },
    });
  },
});
