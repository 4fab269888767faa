import { createGateway, createLog } from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";

/** Set while a build prerenders pages, for which it loads this file as well. */
const isBuild = process.env["IS_RR_BUILD_REQUEST"] === "yes";

/** In development, the plugin for Vite does all of this; a build has no values. */
export const gateway = import.meta.env.DEV || isBuild
  ? undefined
  : await startGateway();

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
