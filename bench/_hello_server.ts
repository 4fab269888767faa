/** The floor of a start: the smallest server. Its argument is a port. */
if (import.meta.main) {
  Deno.serve({
    hostname: "127.0.0.1",
    port: Number(Deno.args[0]),
    onListen() {},
  }, () => new Response("hello"));
}
