import { createQwikCity } from "@builder.io/qwik-city/middleware/node";
import type { RenderToStreamOptions } from "@builder.io/qwik/server";
import qwikCityPlan from "@qwik-city-plan";
import { toNodeHandler } from "@rep/gateway";
import { startGateway } from "@rep/gateway/server";
import express from "express";
import { fileURLToPath } from "node:url";
import render from "./entry.ssr";

const gateway = await startGateway({
  envFile: { path: "app.env", required: false },
});

const { router, notFound } = createQwikCity({
  qwikCityPlan,
  async render(options: RenderToStreamOptions) {
    const configScript = await gateway.configScript();
    const serverData = { ...options.serverData, configScript };
    return await render({ ...options, serverData });
  },
});

const app = express();
const port = process.env["PORT"] ?? 3000;
const files = fileURLToPath(new URL("../dist", import.meta.url));
app.use(toNodeHandler(gateway)); // answers /rep/*; pages are rendered with the values that they are sent with
app.use(express.static(files, { redirect: false }));
app.use((_request, response, next) => {
  response.setHeader("cache-control", "no-store");
  next();
});
app.use(router);
app.use(notFound);
app.listen(Number(port), process.env["HOST"] ?? "0.0.0.0");
