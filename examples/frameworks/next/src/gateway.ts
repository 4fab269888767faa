import { startGateway } from "@rep/gateway/server";

/** Returns the gateway of this process. */
export function getGateway() {
  // trustedProxies: the addresses of proxies whose X-Forwarded-For is true
  return startGateway({
    envFile: { path: "app.env", required: false },
    trustedProxies: [],
  });
}
