import {
  type ProxySettings,
  ReverseProxy,
} from "../../../src/content/proxy/reverse_proxy.ts";
import { Transfers } from "../../../src/core/http/transfers.ts";
import {
  peerAddress,
  resolveClient,
} from "../../../src/core/http/client_address.ts";
import { readUrl, type RouteContext } from "../../../src/core/http/routes.ts";
import { Problem, problemResponse } from "../../../src/core/http/problem.ts";
import { type Log, silentLog } from "../../../src/core/observe/log.ts";
import { noMetrics } from "../../../src/core/observe/metrics.ts";
import { noTelemetry } from "../../../src/core/observe/telemetry.ts";
import { type Clock, systemClock } from "../../../src/core/values/clock.ts";
import { serveLocally } from "../../_serve.ts";

/** What is special about the proxy of a test. */
export interface ProxyOptions extends Partial<ProxySettings> {
  /** The upstream's base path. @default {"/"} */
  base?: string;
  clock?: Clock;
  maxTransfers?: number;
}

/** Creates a proxy for an upstream. */
export function createProxy(
  upstream: URL,
  options: ProxyOptions = {},
  log: Log = silentLog,
  transfers: Transfers = createTransfers(options, log),
): ReverseProxy {
  const { base: _, clock = systemClock, maxTransfers: __, ...changed } =
    options;
  const settings = {
    basePath: "",
    preserveHost: false,
    upstreamTimeoutMs: 30_000,
    rejectWebsockets: false,
    ...changed,
  };
  const services = {
    clock,
    log,
    metrics: noMetrics,
    telemetry: noTelemetry,
    transfers,
  };
  return new ReverseProxy(upstream, settings, services);
}

function createTransfers(
  { clock = systemClock, maxTransfers = 10_000 }: ProxyOptions,
  log: Log,
): Transfers {
  return new Transfers({ clock, log, maxTransfers });
}

/** Returns what a proxy responds to a request that is not for a page. */
export async function respond(
  proxy: ReverseProxy,
  request: Request,
  context: RouteContext,
): Promise<Response> {
  return await proxy.respond(request, context, () => {
    throw new Error("Cannot insert the configuration: expected no page");
  });
}

/** An upstream that is closed at the end of its scope. */
export interface Upstream extends AsyncDisposable {
  port: number;
}

/** Serves a proxy in front of an upstream. It is closed at the end of its scope, before the upstream. */
export function serveProxy(
  upstream: { port: number },
  options: ProxyOptions = {},
) {
  const warnings: Parameters<Log["warn"]>[] = [];
  const log: Log = {
    ...silentLog,
    warn: (...line) => void warnings.push(line),
  };
  const { base = "/" } = options;
  const url = new URL(`http://127.0.0.1:${upstream.port}${base}`);
  const transfers = createTransfers(options, log);
  const proxy = createProxy(url, options, log, transfers);
  const server = serveLocally(async (request, info) => {
    const url = readUrl(request.url)!;
    const client = resolveClient(request, {
      origin: url.origin,
      peer: peerAddress(info.remoteAddr),
      isTrusted: () => false,
    });
    try {
      return await respond(proxy, request, { url, client });
    } catch (error) {
      if (error instanceof Problem) return problemResponse(error);
      throw error;
    }
  });
  return {
    url: server.url,
    port: server.port,
    proxy,
    transfers,
    /** The warnings that were logged. */
    warnings,
    async [Symbol.asyncDispose]() {
      proxy.close();
      transfers.close();
      await server.shutdown();
    },
  };
}

/** A connection that a test reads and writes directly. */
export interface RawConnection {
  /** Reads to the end of the next head and returns it; `undefined` if the peer has closed. */
  readHead(): Promise<string | undefined>;
  /** Reads to the end of the next head, and returns the status in its first line. */
  readStatus(): Promise<number>;
  /** Reads what comes next; `undefined` if the peer has closed. */
  read(): Promise<string | undefined>;
  /** Writes one byte for each character. */
  write(text: string): Promise<void>;
  /** Closes the writing half. */
  closeWriting(): void;
  close(): void;
}

/** An upstream that runs a script for each connection, and then closes it. */
export function scriptedUpstream(
  script: (connection: RawConnection, index: number) => Promise<void>,
): Upstream {
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const running: Promise<void>[] = [];
  const accepting = (async () => {
    for await (const accepted of listener) {
      const connection = rawConnection(accepted);
      running.push(
        script(connection, running.length).finally(() => connection.close()),
      );
    }
  })();
  return {
    port: (listener.addr as Deno.NetAddr).port,
    async [Symbol.asyncDispose]() {
      listener.close();
      await accepting;
      await Promise.all(running);
    },
  };
}

/** Connects to a server on this machine, and sends a text. */
export async function connectRaw(
  port: number,
  text = "",
): Promise<RawConnection & Disposable> {
  const connection = rawConnection(
    await Deno.connect({ port, hostname: "127.0.0.1" }),
  );
  await connection.write(text);
  return { ...connection, [Symbol.dispose]: () => connection.close() };
}

function rawConnection(connection: Deno.Conn): RawConnection {
  const buffer = new Uint8Array(65_536);
  let unread = "";
  let isClosed = false;
  async function readMore(): Promise<string | undefined> {
    try {
      const count = await connection.read(buffer);
      return count === null ? undefined : byteText(buffer.subarray(0, count));
    } catch {
      return undefined; // reset by the peer, or closed by the test
    }
  }
  async function readHead(): Promise<string | undefined> {
    while (!unread.includes("\r\n\r\n")) {
      const text = await readMore();
      if (text === undefined) return undefined;
      unread += text;
    }
    const end = unread.indexOf("\r\n\r\n") + 4;
    const head = unread.slice(0, end);
    unread = unread.slice(end);
    return head;
  }
  return {
    readHead,
    async readStatus() {
      return Number((await readHead())?.split(" ")[1]);
    },
    async read() {
      const text = unread;
      unread = "";
      return text === "" ? await readMore() : text;
    },
    async write(text) {
      const bytes = Uint8Array.from(
        text,
        (character) => character.charCodeAt(0),
      );
      for (let sent = 0; sent < bytes.length;) {
        sent += await connection.write(bytes.subarray(sent));
      }
    },
    closeWriting: () => void connection.closeWrite(),
    close() {
      if (!isClosed) connection.close();
      isClosed = true;
    },
  };
}

/** Returns one character for each byte. `TextDecoder` decodes "latin1" as windows-1252. */
function byteText(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

/** A clock whose timers fire when the test says so. */
export interface ManualClock extends Clock {
  /** Fires all timers. */
  fire(): void;
  /** How many timers are running. */
  readonly pending: number;
  /** How many timers were ever started. */
  readonly started: number;
}

export function manualClock(): ManualClock {
  const timers = new Set<() => void>();
  let started = 0;
  return {
    now: () => 0,
    monotonic: () => 0,
    after(_ms, callback) {
      const timer = () => callback();
      timers.add(timer);
      started++;
      return () => timers.delete(timer);
    },
    fire() {
      for (const timer of timers) {
        timers.delete(timer);
        timer();
      }
    },
    get pending() {
      return timers.size;
    },
    get started() {
      return started;
    },
  };
}
