import { Denokv, findDenokv } from "../tools/denokv.ts";
import { Http2RequestCounter } from "./_denokv.ts";
import { type Engine, testMultipleGateways } from "./_multi_gateway.ts";
import { TempDirectory } from "./_temp.ts";

/**
 * How many lines Deno may print in an outage: four a second for each operation in flight, of which there are up to four
 * (log, stored variables, members, a commit).
 */
const MAX_DENO_LINES = 350;

const program = await findDenokv();

function denokv(program: string): Engine {
  return {
    name: "a denokv server",
    createCounter: () => new Http2RequestCounter(),
    rejection:
      /^Cannot open the store "http:\/\/127\.0\.0\.1:\d+": .* status 401 /,
    maxDenoLines: MAX_DENO_LINES,
    async start() {
      await using stack = new AsyncDisposableStack();
      const token = crypto.randomUUID();
      const directory = stack.use(await TempDirectory.make());
      const server = stack.use(
        await Denokv.launch({
          program,
          path: directory.at("kv.sqlite3"),
          token,
        }),
      );
      const all = stack.move();
      return {
        port: server.port,
        kill: () => server.kill(),
        start: () => server.start(),
        access: (port, credentials = "valid") => ({
          kv: `http://127.0.0.1:${port}`,
          env: {
            DENO_KV_ACCESS_TOKEN: credentials === "valid"
              ? token
              : `not ${token}`,
          },
        }),
        [Symbol.asyncDispose]: () => all.disposeAsync(),
      };
    },
  };
}

testMultipleGateways(
  program === undefined ? undefined : denokv(program),
  "denokv (deno task test:denokv installs it)",
);
