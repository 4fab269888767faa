import { createGateway, createLog } from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";
import type { Handle } from "@sveltejs/kit";
import { building, dev } from "$app/environment";

/** In development, the plugin for Vite does all of this; a build has no values. */
const gateway = building || dev ? undefined : await startGateway();

async function startGateway() {
  const gateway = await createGateway({
    variables: () => readEnvFile("app.env"), // leave this out to read the process's environment
    hotReload: true,
    log: createLog(),
  });
  await watchFiles(["app.env"], () => void gateway.reload().catch(() => {}));
  process.once("SIGTERM", () => gateway.close());
  return gateway;
}

export const handle: Handle = async ({ event, resolve }) => {
  const { request } = event;
  if (gateway === undefined) return await resolve(event);
  const hostname = event.getClientAddress();
  const remoteAddr = { transport: "tcp" as const, hostname };
  const response = await gateway.handle(request, { remoteAddr });
  if (response !== undefined) return response;
  return await gateway.run(async () =>
    await gateway.inject(await resolve(event), request)
  );
};
