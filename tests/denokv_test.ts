import { findDenokv, startDenokv } from "../tools/denokv.ts";
import { http2RequestCounter } from "./_denokv.ts";
import { type Engine, testMultipleGateways } from "./_multi_gateway.ts";
import { TempDirectory } from "./_temp.ts";

const program = await findDenokv();

/**
 * Four lines a second for every operation in progress, of which there are up to four: the log, the stored variables, the members, and
 * a commit.
 */
const MAX_NOISE = 350;

function denokv(program: string): Engine {
  return {
    name: "a denokv server",
    requestCounter: http2RequestCounter,
    refusal: /^Cannot open --kv "http:\/\/127\.0\.0\.1:\d+": .* status 401 /,
    maxNoise: MAX_NOISE,
    async start() {
      await using stack = new AsyncDisposableStack();
      const token = crypto.randomUUID();
      const directory = stack.use(await TempDirectory.make());
      const server = stack.use(await startDenokv({ program, path: directory.at("kv.sqlite3"), token }));
      const all = stack.move();
      return {
        port: server.port,
        kill: () => server.kill(),
        start: () => server.start(),
        access: (port, credentials = "valid") => ({
          kv: `http://127.0.0.1:${port}`,
          env: { DENO_KV_ACCESS_TOKEN: credentials === "valid" ? token : `not ${token}` },
        }),
        [Symbol.asyncDispose]: () => all.disposeAsync(),
      };
    },
  };
}

testMultipleGateways(program === undefined ? undefined : denokv(program), "denokv (deno task test:denokv installs it)");
