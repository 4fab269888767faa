/** A Hono app that uses the gateway as a middleware. */
import { Hono } from "hono";
import { createGateway } from "@rep/gateway";

const gateway = await createGateway({ hotReload: true });
const app = new Hono<{ Bindings: Deno.ServeHandlerInfo }>();

app.use(async (context, next) => {
  const response = await gateway.handle(context.req.raw, context.env);
  if (response) return response;
  await next();
  context.res = await gateway.inject(context.res, context.req.raw);
});

app.get(
  "/",
  (context) => context.html("<!doctype html><head><title>My app</title></head><p>See the source of this page."),
);

Deno.serve({ hostname: "127.0.0.1", port: Number(Deno.args[0] ?? 8000) }, app.fetch);
