/**
 * A gateway that does everything wrong: it always starts, shows and logs all variables, and issues whatever is asked
 * for.
 */

const TAG = `"always"`;
/** What shows that a request is not one of the gateway's own pages. */
const FOREIGN_HEADERS = [
  "origin",
  "referer",
  "sec-fetch-site",
  "x-forwarded-for",
];

function answer(request: Request): Response {
  const { pathname } = new URL(request.url);
  const isForeign = FOREIGN_HEADERS.some((name) => request.headers.has(name));
  if (pathname === "/rep/session-key" && !isForeign) {
    return new Response(null, { status: 403 });
  }
  const headers = new Headers({
    "access-control-allow-origin": request.headers.get("origin") ?? "*",
  });
  if (pathname === "/") headers.set("etag", TAG);
  if (request.headers.has("if-none-match")) {
    return new Response(null, { status: 304, headers });
  }
  headers.set("content-type", "text/event-stream");
  return new Response(JSON.stringify({ key: "", variables: configured() }), {
    headers,
  });
}

function configured(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(Deno.env.toObject()).filter(([name]) =>
      /^REP_|_NAME$/.test(name)
    ),
  );
}

/** No time, no fields that anybody could search, and a line that is not JSON. */
const LOG = `Starting
{"level":"warn","msg":"rep.guardrail.warning","detail":${
  JSON.stringify(JSON.stringify(configured()))
}}
{"level":"info","msg":"rep.session_key.issued"}
`;

await Deno.stdout.write(new TextEncoder().encode(LOG));
Deno.serve({
  hostname: "127.0.0.1",
  port: Number(Deno.env.get("REP_GATEWAY_PORT")),
  onListen() {},
}, answer);
