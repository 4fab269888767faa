import { createGateway, createLog } from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";

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

export default defineNitroPlugin(({ h3App, hooks }) => {
  if (import.meta.prerender) return; // a build has no values
  const starting = startGateway(); // a Nitro plugin cannot wait
  const { handler } = h3App;
  h3App.handler = async (event) => {
    const gateway = await starting;
    const isOwn = event.path.startsWith("/rep/");
    if (!isOwn) return await gateway.run(() => handler(event));
    const hostname = getRequestIP(event) ?? "";
    const remoteAddr = { transport: "tcp" as const, hostname };
    const request = toWebRequest(event);
    await sendWebResponse(event, await gateway.fetch(request, { remoteAddr }));
  };
  hooks.hook("render:html", async ({ head }, { event }) => {
    const gateway = await starting;
    head.unshift(await gateway.configScript());
    setResponseHeader(event, "cache-control", "no-store");
  });
});
