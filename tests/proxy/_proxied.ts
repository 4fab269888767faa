import { type Clock, systemClock } from "../../src/clock.ts";
import { createProxy, type Proxy, type ProxyCallOptions } from "../../src/proxy/proxy.ts";
import { peerAddress, resolveClient } from "../../src/http/client_address.ts";
import { Problem, problemResponse } from "../../src/http/problem.ts";
import type { Log, LogFields } from "../../src/log.ts";

/** What {@linkcode proxied} may be told. */
export interface ProxiedOptions {
  /** The upstream's base path. @default {"/"} */
  base?: string;
  clock?: Clock;
  call?: ProxyCallOptions;
}

/** A server of nothing but a proxy; it ends with its scope, the upstream after it. */
export interface Proxied extends AsyncDisposable {
  url: string;
  port: number;
  proxy: Proxy;
  /** The warnings that were logged. */
  warnings: [string, LogFields | undefined][];
}

/** An upstream that ends with its scope. */
export interface Upstream extends AsyncDisposable {
  port: number;
}

/** Serves a proxy before an upstream. */
export function proxied(upstream: { port: number }, options: ProxiedOptions = {}): Proxied {
  const { base = "/", clock = systemClock, call = {} } = options;
  const warnings: Proxied["warnings"] = [];
  const log: Log = { debug() {}, info() {}, warn: (...line) => void warnings.push(line as never), error() {} };
  const proxy = createProxy({ upstream: new URL(`http://127.0.0.1:${upstream.port}${base}`), log, clock });
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request, info) => {
    try {
      return await proxy(request, resolveClient(request, peerAddress(info.remoteAddr), () => false), call);
    } catch (error) {
      if (error instanceof Problem) return problemResponse(error);
      throw error;
    }
  });
  const { port } = server.addr;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    proxy,
    warnings,
    async [Symbol.asyncDispose]() {
      proxy.close();
      await server.shutdown();
    },
  };
}

/** An upstream that `Deno.serve` makes. */
export function served(handler: Deno.ServeHandler<Deno.NetAddr>): Upstream {
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, handler);
  return { port: server.addr.port, [Symbol.asyncDispose]: () => server.shutdown() };
}

/** One connection to a {@linkcode scripted} upstream. */
export interface Line {
  /** Reads up to the end of the next head, and gives it; nothing if the peer has closed. */
  head(): Promise<string | undefined>;
  /** Reads what comes next; nothing if the peer has closed. */
  read(): Promise<string | undefined>;
  /** Writes text, a byte for each of its characters. */
  write(text: string): Promise<void>;
  /** Says that nothing more is written. */
  closeWriting(): void;
  close(): void;
}

/** An upstream that says to each connection what the test makes it say, and then closes it. */
export function scripted(play: (line: Line, count: number) => Promise<void>): Upstream {
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const plays: Promise<void>[] = [];
  const accepting = (async () => {
    for await (const connection of listener) {
      const line = lineOf(connection);
      plays.push(play(line, plays.length).finally(() => line.close()));
    }
  })();
  return {
    port: (listener.addr as Deno.NetAddr).port,
    async [Symbol.asyncDispose]() {
      listener.close();
      await accepting;
      await Promise.all(plays);
    },
  };
}

/** Talks to a server as no HTTP client would. */
export async function dialed(port: number): Promise<Line & Disposable> {
  const line = lineOf(await Deno.connect({ port, hostname: "127.0.0.1" }));
  return { ...line, [Symbol.dispose]: () => line.close() };
}

function lineOf(connection: Deno.Conn): Line {
  const buffer = new Uint8Array(65_536);
  let unread = "";
  let isClosed = false;
  async function more(): Promise<string | undefined> {
    try {
      const count = await connection.read(buffer);
      return count === null ? undefined : textOf(buffer.subarray(0, count));
    } catch {
      return undefined; // reset by the peer, or closed by the test: the end in any case
    }
  }
  return {
    async head() {
      while (!unread.includes("\r\n\r\n")) {
        const text = await more();
        if (text === undefined) return undefined;
        unread += text;
      }
      const end = unread.indexOf("\r\n\r\n") + 4;
      const head = unread.slice(0, end);
      unread = unread.slice(end);
      return head;
    },
    async read() {
      const text = unread;
      unread = "";
      return text === "" ? await more() : text;
    },
    async write(text) {
      const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
      for (let sent = 0; sent < bytes.length;) sent += await connection.write(bytes.subarray(sent));
    },
    closeWriting: () => void connection.closeWrite(),
    close() {
      if (!isClosed) connection.close();
      isClosed = true;
    },
  };
}

/** A character for each byte; what TextDecoder calls "latin1" is windows-1252. */
function textOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

/** A clock that stands still until it is told that the time is over. */
export interface ManualClock extends Clock {
  /** Ends all waiting. */
  ring(): void;
  /** How many are waiting. */
  readonly waiting: number;
  /** How many have ever waited. */
  readonly begun: number;
}

export function manualClock(): ManualClock {
  const callbacks = new Set<() => void>();
  let begun = 0;
  return {
    now: () => 0,
    after(_ms, callback) {
      const entry = () => callback();
      callbacks.add(entry);
      begun++;
      return () => callbacks.delete(entry);
    },
    ring() {
      for (const callback of callbacks) {
        callbacks.delete(callback);
        callback();
      }
    },
    get waiting() {
      return callbacks.size;
    },
    get begun() {
      return begun;
    },
  };
}
