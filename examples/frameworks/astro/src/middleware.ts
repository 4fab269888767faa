import { createGateway, createLog, type Gateway } from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";
import { defineMiddleware } from "astro:middleware";

/** Started with the first request: a build also loads this file, but must not contain values. */
let gateway: Promise<Gateway> | undefined;

async function startGateway(): Promise<Gateway> {
  const gateway = await createGateway({
    variables: () => readEnvFile("app.env"), // leave this out to read the process's environment
    hotReload: true,
    log: createLog(),
  });
  await watchFiles(["app.env"], () => void gateway.reload().catch(() => {}));
  process.once("SIGTERM", () => gateway.close().then(() => process.exit())); // Astro's own server ignores it
  return gateway;
}

export const onRequest = defineMiddleware(async (context, next) => {
  const { request, isPrerendered } = context;
  if (import.meta.env.DEV || isPrerendered) return await next(); // in development, the plugin for Vite does all of this
  gateway ??= startGateway();
  const { handle, inject, run } = await gateway;
  const hostname = context.clientAddress;
  const remoteAddr = { transport: "tcp" as const, hostname };
  const response = await handle(request, { remoteAddr });
  return response ?? await run(async () => await inject(await next(), request));
});
