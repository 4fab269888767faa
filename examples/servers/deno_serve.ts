/** An app of its own that hands its configuration out through the gateway. */
import { createGateway } from "@rep/gateway";

const gateway = await createGateway({ hotReload: true });

function page(): Response {
  return new Response("<!doctype html><head><title>My app</title></head><p>Look at the source.", {
    headers: { "content-type": "text/html; charset=utf-8" },
  });
}

Deno.serve({ hostname: "127.0.0.1", port: Number(Deno.args[0] ?? 8000) }, async (request, info) => {
  const own = await gateway.handle(request, info);
  return own ?? await gateway.inject(page(), request);
});
