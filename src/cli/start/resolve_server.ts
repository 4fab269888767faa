import type { Log } from "../../observe/log.ts";
import { bindDenoServer } from "../../server/deno_server.ts";
import { connectionBudget, readOpenFileLimit } from "../../server/open_files.ts";
import type { BindServer } from "../../server/server.ts";
import type { Clock } from "../../values/clock.ts";
import { formatDuration } from "../../values/duration.ts";
import { type CommandOptions, OPTIONS } from "../options/option_table.ts";
import { UsageError } from "../options/read_options.ts";
import { resolveContent } from "./resolve_content.ts";

/** What the server needs besides the options. */
interface ServerContext {
  clock: Clock;
  log: Log;
}

/** Options that only the server of node follows. */
const NODE_OPTIONS = ["max-connections", "header-timeout", "request-timeout", "keep-alive-timeout"] as const;

/**
 * Checks that no option is set which the server of `--server` cannot follow.
 *
 * @throws {UsageError} If there is one.
 */
export function checkServer(options: CommandOptions): void {
  if (options.server === "node") checkTimeouts(options);
  else rejectNodeOptions(options);
}

/** The head is a part of the request. */
function checkTimeouts({ "header-timeout": header, "request-timeout": request }: CommandOptions): void {
  if (header <= request) return;
  const options = `--header-timeout ${formatDuration(header)} with --request-timeout ${formatDuration(request)}`;
  throw new UsageError(`Cannot use ${options}: expected a time that is not longer`);
}

function rejectNodeOptions(options: CommandOptions): void {
  const name = NODE_OPTIONS.find((name) => options[name] !== OPTIONS[name].default);
  if (name !== undefined) throw new UsageError(`Cannot use --${name} with --server deno: expected --server node`);
}

/** Returns the server of `--server`. That of node is loaded only if it is used. */
export async function resolveServer(options: CommandOptions, context: ServerContext): Promise<BindServer> {
  if (options.server === "deno") return bindDenoServer;
  const { bindNodeServer } = await import("../../server/node_server.ts");
  const filesPerConnection = resolveContent(options).upstream === undefined ? 1 : 2;
  const { backlog, maxConnections } = connectionBudget(readOpenFileLimit(), filesPerConnection);
  return bindNodeServer({
    backlog,
    maxConnections: options["max-connections"] ?? maxConnections,
    headerTimeoutMs: options["header-timeout"],
    requestTimeoutMs: options["request-timeout"],
    keepAliveTimeoutMs: options["keep-alive-timeout"],
  }, context);
}
