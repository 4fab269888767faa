import { createGateway, createLog } from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";

/** In development, the plugin for Vite does all of this. */
export const gateway = import.meta.env.DEV ? undefined : await startGateway();

async function startGateway() {
  const gateway = await createGateway({
    variables: () => readEnvFile("app.env"), // without this line, the environment of the process
    hotReload: true,
    log: createLog(),
  });
  await watchFiles(["app.env"], () => void gateway.reload().catch(() => {}));
  process.once("SIGTERM", () => gateway.close());
  return gateway;
}
