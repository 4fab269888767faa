import { createGateway, createLog } from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";

/** In development, the plugin for Vite does all of this. */
export const gateway = import.meta.env.DEV ? undefined : await startGateway();

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
