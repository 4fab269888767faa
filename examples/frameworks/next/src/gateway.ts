import { createGateway, createLog, type Gateway } from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";

/** Next.js has several copies of this module in one process. */
const shared = globalThis as { gateway?: Promise<Gateway> };

/** Returns the gateway of this process. */
export function getGateway(): Promise<Gateway> {
  return shared.gateway ??= startGateway();
}

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
