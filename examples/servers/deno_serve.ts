/** A server that uses the gateway as a module. */
import { createGateway } from "@rep/gateway";

const gateway = await createGateway({ hotReload: true });

function page(): Response {
  return new Response(
    "<!doctype html><head><title>My app</title></head><p>See the source of this page.",
    {
      headers: { "content-type": "text/html; charset=utf-8" },
    },
  );
}

Deno.serve(
  { hostname: "127.0.0.1", port: Number(Deno.args[0] ?? 8000) },
  async (request, info) => {
    const response = await gateway.handle(request, info);
    return response ?? await gateway.inject(page(), request);
  },
);
