import { createGateway, createLog, type Gateway } from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";
import handler, { createServerEntry } from "@tanstack/react-start/server-entry";

async function startGateway(): Promise<Gateway> {
  const gateway = await createGateway({
    variables: () => readEnvFile("app.env"), // leave this out to read the process's environment
    hotReload: true,
    log: createLog(),
  });
  await watchFiles(["app.env"], () => void gateway.reload().catch(() => {}));
  process.once("SIGTERM", () => gateway.close());
  return gateway;
}

/** Set while a build prerenders pages, for which it starts this server. */
const isBuild = process.env["TSS_PRERENDERING"] === "true";

let gateway: Promise<Gateway> | undefined;

export default createServerEntry({
  async fetch(request: Request & { ip?: string }) {
    // In development, the plugin for Vite does all of this; a build has no values.
    if (import.meta.env.DEV || isBuild) return await handler.fetch(request);
    gateway ??= startGateway();
    const { handle, inject, run } = await gateway;
    const remoteAddr = {
      transport: "tcp" as const,
      hostname: request.ip ?? "",
    };
    const response = await handle(request, { remoteAddr });
    return response ??
      await run(async () =>
        await inject(await handler.fetch(request), request)
      );
  },
});
