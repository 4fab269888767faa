import { createGateway, createLog, type Gateway } from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";
import { subscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";

/** Next.js has several copies of this module in one process. */
const shared = globalThis as { gateway?: Promise<Gateway> };

/** Returns the gateway of this process. */
export function getGateway(): Promise<Gateway> {
  return shared.gateway ??= startGateway();
}

async function startGateway(): Promise<Gateway> {
  const gateway = await createGateway({
    variables: () => readEnvFile("app.env"), // leave this out to read the process's environment
    trustedProxies: [], // the addresses of proxies whose X-Forwarded-For is true
    hotReload: true,
    log: createLog(),
  });
  await watchFiles(["app.env"], () => void gateway.reload().catch(() => {}));
  process.once("SIGTERM", () => gateway.close());
  notePeers();
  return gateway;
}

/** The header with the address of the peer, which a route cannot learn from Next.js. */
export const PEER = "x-peer-address";

/** Sets the header of each request. What a client sends under its name is replaced. */
function notePeers(): void {
  subscribe("http.server.request.start", (message) => {
    const { headers, socket } = (message as { request: IncomingMessage })
      .request;
    headers[PEER] = socket.remoteAddress;
  });
}
