/**
 * The gateway for `deno serve`, on all cores: `deno serve --parallel -A --unstable-kv jsr:@rep/gateway/serve`. Options
 * come from `REP_GATEWAY_…`, or follow the module's name on the command line. Deno's own `--host` and `--port` set
 * where to listen.
 *
 * It is a separate module because a module cannot know whether `deno run` or `deno serve` runs it: `main.ts` would
 * listen twice.
 *
 * @module
 */
import {
  isOnDeploy,
  readStart,
  type Start,
} from "./src/command/options/read_start.ts";
import type { OptionName } from "./src/command/options/option_table.ts";
import { UsageError } from "./src/command/options/read_options.ts";
import {
  exitWithStartError,
  openLog,
  openTelemetryIfEnabled,
} from "./src/command/start/start_log.ts";
import { Output } from "./src/command/start/output.ts";
import { onSignals } from "./src/command/start/signals.ts";
import { hostAndPort } from "./src/core/values/urls.ts";
import { checkStart } from "./src/command/start/check_start.ts";
import { Service } from "./src/command/start/service.ts";
import type { ConnectionInfo } from "./src/core/http/respond.ts";
import { systemClock } from "./src/core/values/clock.ts";

/** Options that only the command itself can follow, and why. */
const UNAVAILABLE: Readonly<Partial<Record<OptionName, string>>> = {
  "port": "expected --port of deno serve, before the module's name",
  "hostname": "expected --host of deno serve, before the module's name",
  "health-port": "each of its threads would need the port",
  "tls-cert": "expected --cert of deno serve",
  "tls-key": "expected --key of deno serve",
  "stop-delay": "Deno closes the port at the first signal",
};

const output = new Output();
const start = await readServedStart()
  .catch((error) => exitWithStartError(error, output));
const log = openLog(start, output);
const service = new Service(start, {
  log,
  droppedLines: () => output.stdout.dropped,
  telemetry: await openTelemetryIfEnabled(log),
  clock: systemClock,
});
// Before the start: a thread that misses the signal keeps the whole process alive.
onSignals({
  log,
  reload: () => service.reloadVariablesAndTls({ isRequested: true }),
  stop,
  exit,
});

const isInMemory = !isOnDeploy() &&
  (!("openKv" in Deno) || start.options.kv === ":memory:");
const threads = isInMemory ? rejectOtherThreads() : undefined;

/** After this time, Deno has bound the port, or has ended the process because it could not. */
const BOUND_AFTER_MS = 2_000;

// Deno binds the port after it has loaded this module. Starting earlier would join the rollout although the port may be
// in use. `onListen` is called in one of the threads only: the others start with their first request, or after this
// time. The start follows a promise, since what a request itself starts is part of the request's trace.
const beginning = Promise.withResolvers<void>();
const starting = beginning.promise
  .then(() => service.start())
  .catch((error) => exitWithStartError(error, output, log));
let hasBegun = false;
const timer = setTimeout(startOnce, BOUND_AFTER_MS);

function startOnce(): Promise<void> {
  clearTimeout(timer);
  hasBegun = true;
  beginning.resolve();
  return starting;
}

/** The process ends by itself when all of its threads have stopped. A line that nobody reads would keep it alive. */
async function exit(code?: number): Promise<void> {
  if (code !== undefined) return await output.exit(code);
  await output.flush().catch(() => Deno.exit());
}

async function stop(): Promise<void> {
  threads?.close(); // it keeps the process alive
  if (!hasBegun) return clearTimeout(timer);
  await service.stop();
}

/**
 * Ends the process if it has several threads, of which each would have a memory of its own: a client could have as many
 * limits, and a page's key would be known to one of them only.
 */
function rejectOtherThreads(): BroadcastChannel {
  const threads = new BroadcastChannel("threads of @rep/gateway");
  threads.onmessage = () => {
    const reason = "each thread would have a rate limit and a key of its own";
    void exitWithStartError(
      new UsageError(
        `Cannot use deno serve --parallel in memory: ${reason}; expected a --kv to share`,
      ),
      output,
      log,
    );
  };
  threads.postMessage("started");
  return threads;
}

/** Reads and checks what is to be started. */
async function readServedStart(): Promise<Start> {
  const start = await readStart(Deno.args);
  if (start === "help" || start === "version") {
    throw new UsageError(
      `Cannot use --${start} with deno serve: expected deno run main.ts`,
    );
  }
  for (const [name, reason] of Object.entries(UNAVAILABLE)) {
    if (start.isSet(name as OptionName)) {
      throw new UsageError(`Cannot use --${name} with deno serve: ${reason}`);
    }
  }
  await checkStart(start.options);
  return start;
}

/** What `deno serve` calls. */
const server: {
  fetch(request: Request, info: ConnectionInfo): Response | Promise<Response>;
  onListen(address: Deno.NetAddr): Promise<void>;
} = {
  fetch(request, info) {
    void startOnce();
    return service.fetch(request, info);
  },
  async onListen({ hostname, port }) {
    await startOnce();
    const path = start.options["base-path"];
    const url = `http://${hostAndPort(hostname, port)}${path}/`;
    log.info("rep.listening", { serves: "gateway", url, port });
  },
};
export default server;
