import { startGateway } from "@rep/gateway/server";

/** Returns the gateway of this process. */
export function getGateway() {
  // trustedProxies: the addresses of proxies whose X-Forwarded-For is true
  return startGateway({
    envFile: { path: "app.env", required: false },
    trustedProxies: [],
  });
}

/** Starts it, or ends the server: Next.js would say that it is ready, and answer 500 to each request. */
export async function startOrExit() {
  try {
    await getGateway();
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exit(1);
  }
}
