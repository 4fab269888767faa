import type { MiddlewareHandler } from "hono";
import type { Gateway } from "@rep/gateway";

/** Returns a middleware that answers the gateway's requests, and puts the configuration into pages. */
export function configuration(
  gateway: Gateway,
): MiddlewareHandler<{ Bindings: Deno.ServeHandlerInfo }> {
  return async (context, next) => {
    const response = await gateway.handle(context.req.raw, context.env);
    if (response) return response;
    await next();
    const page = await gateway.inject(context.res, context.req.raw);
    context.res = undefined; // otherwise Hono overwrites headers of the page with those of the original response
    context.res = page;
  };
}
