// @refresh reload
import { createGateway, createLog, type Gateway } from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";
import { createHandler, StartServer } from "@solidjs/start/server";

/** Development loads this module again after each change. */
const shared = globalThis as { gateway?: Promise<Gateway> };

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

const handler = createHandler(() => (
  <StartServer
    document={({ assets, children, scripts }) => (
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          {assets}
        </head>
        <body>
          <div id="app">{children}</div>
          {scripts}
        </body>
      </html>
    )}
  />
));

export default {
  async fetch(request: Request & { ip?: string }): Promise<Response> {
    shared.gateway ??= startGateway(); // in development as well: this is not Vite's process
    const { handle, inject, run } = await shared.gateway;
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
};
