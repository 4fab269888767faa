/** Serves on a free port of 127.0.0.1. */
export function serveLocally(handler: Deno.ServeHandler<Deno.NetAddr>) {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    handler,
  );
  const { port } = server.addr;
  return Object.assign(server, { port, url: `http://127.0.0.1:${port}` });
}
