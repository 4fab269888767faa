import type { Server, ServerOptions } from "./server.ts";

/** Serves with `Deno.serve`, which bounds neither connections nor their time. */
// deno-lint-ignore require-await -- an exception becomes a rejection
export async function bindDenoServer({ tls, handler, ...others }: ServerOptions): Promise<Server> {
  const options = { ...others, onListen() {} };
  const server = tls ? Deno.serve({ ...options, ...certificateOf(tls) }, handler) : Deno.serve(options, handler);
  return { port: server.addr.port, finished: server.finished, shutdown: () => server.shutdown() };
}

function certificateOf({ cert, key }: NonNullable<ServerOptions["tls"]>) {
  return { cert, key };
}
