import {
  AngularNodeAppEngine,
  createNodeRequestHandler,
  isMainModule,
  writeResponseToNodeResponse,
} from "@angular/ssr/node";
import {
  createGateway,
  createLog,
  type Gateway,
  toNodeHandler,
} from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";
import express from "express";
import { join } from "node:path";

/** `ng serve` loads this module again after each change. */
const shared = globalThis as { gateway?: Promise<Gateway> };

async function startGateway(): Promise<Gateway> {
  const gateway = await createGateway({
    variables: () => readEnvFile("app.env"), // leave this out to read the process's environment
    hotReload: true,
    log: createLog(),
  });
  await watchFiles(["app.env"], () => void gateway.reload().catch(() => {}));
  return gateway;
}

/** Starts it with the first request: a build that prerenders pages also loads this file, but must not contain values. */
function getGateway(): Promise<Gateway> {
  return shared.gateway ??= startGateway();
}

const app = express();
const angularApp = new AngularNodeAppEngine();

app.use((request, response, next) => {
  getGateway().then(
    (gateway) => toNodeHandler(gateway)(request, response, next),
    next,
  );
});

app.use(
  express.static(join(import.meta.dirname, "../browser"), {
    maxAge: "1y",
    index: false,
    redirect: false,
  }),
);

app.use((request, response, next) => {
  angularApp.handle(request).then(async (page) => {
    if (page === null) return next();
    const gateway = await getGateway();
    const configured = await gateway.inject(page);
    await writeResponseToNodeResponse(configured, response);
  }).catch(next);
});

if (isMainModule(import.meta.url) || process.env["pm_id"]) {
  const port = process.env["PORT"] || 4000;
  app.listen(port, (error) => {
    if (error) throw error;
  });
}

export const reqHandler = createNodeRequestHandler(app);
