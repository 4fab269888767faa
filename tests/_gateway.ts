import { createGatewayIn } from "../src/gateway.ts";
import type { Gateway } from "../src/gateway_interface.ts";
import {
  type GatewayOptions,
  type ProcessInfo,
  UNKNOWN_PROCESS,
} from "../src/options.ts";
import { createLog, type Log } from "../src/core/observe/log.ts";
import { readSse, type SseReader } from "./_sse.ts";

/** Returns a log that records its lines as objects. */
export function captureLog(): { log: Log; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const log = createLog({
    level: "debug",
    write: (line) => lines.push(JSON.parse(line)),
  });
  return { log, lines };
}

/** A gateway whose variables a test sets. */
export interface TestGateway extends AsyncDisposable {
  gateway: Gateway;
  /** The log, one object per line. */
  lines: Record<string, unknown>[];
  /** The lines of the log with this event. */
  logged(event: string): Record<string, unknown>[];
  /** The line of a metric on the health port, which begins with its name. */
  metric(name: string): Promise<string | undefined>;
  /** Replaces the variables, and reloads. */
  set(variables: Record<string, string>): Promise<void>;
  /** Sends a request from 127.0.0.1. */
  ask(path: string, init?: RequestInit): Promise<Response>;
  /** Opens a stream of changes. */
  listen(headers?: HeadersInit, query?: string): Promise<SseReader>;
}

const PEER = {
  remoteAddr: { transport: "tcp", hostname: "127.0.0.1", port: 50_000 },
} as const;

/** Creates a gateway with hot reload. Its event ids are times in milliseconds, times 1,000. */
export async function setUp(
  variables: Record<string, string>,
  options: GatewayOptions = {},
  process: Partial<ProcessInfo> = {},
): Promise<TestGateway> {
  let current = variables;
  const { log, lines } = captureLog();
  const gateway = await createGatewayIn({ ...UNKNOWN_PROCESS, ...process }, {
    hotReload: true,
    log,
    random: () => 0,
    variables: () => current,
    ...options,
  });
  const ask = async (path: string, init?: RequestInit) =>
    await gateway.fetch(new Request(`http://gateway.test${path}`, init), PEER);
  return {
    gateway,
    lines,
    logged: (event) => lines.filter(({ msg }) => msg === event),
    async metric(name) {
      const request = new Request("http://health.test/metrics");
      const text = await (await gateway.fetchHealth(request)).text();
      return new RegExp(`^${name}[ {].*$`, "m").exec(text)?.[0];
    },
    ask,
    set(next) {
      current = next;
      return gateway.reload();
    },
    async listen(headers = {}, query = "") {
      return readSse(await ask(`/rep/changes${query}`, { headers }));
    },
    [Symbol.asyncDispose]: () => gateway.close(),
  };
}
