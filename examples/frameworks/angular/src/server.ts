import {
  AngularNodeAppEngine,
  createNodeRequestHandler,
  isMainModule,
  writeResponseToNodeResponse,
} from "@angular/ssr/node";
import { toNodeHandler } from "@rep/gateway";
import { startGateway } from "@rep/gateway/server";
import express from "express";
import { join } from "node:path";

/** Starts it with the first request: a build that prerenders pages also loads this file, but must not contain values. */
const getGateway = () =>
  startGateway({ envFile: { path: "app.env", required: false } });

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
