import type { ConnectionInfo } from "../http/respond.ts";

/** A certificate chain and its private key, both PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** Options of a {@linkcode BindServer}. */
export interface ServerOptions {
  hostname: string;
  /** 0 picks a free port. */
  port: number;
  /** Without it, the server speaks plain HTTP. */
  tls: Certificate | undefined;
  handler: (request: Request, info: ConnectionInfo) => Response | Promise<Response>;
  /** Receives what the handler or the body of a response threw, and returns the response, if there can still be one. */
  onError: (error: unknown) => Response;
}

/** A port that is being served. */
export interface Server {
  readonly port: number;
  /** Resolves after {@linkcode shutdown}; rejects if the server has stopped accepting connections by itself. */
  readonly finished: Promise<void>;
  /** Stops accepting connections. Resolves when the last request in flight has been answered. */
  shutdown(): Promise<void>;
}

/**
 * Binds a port and serves on it.
 *
 * @throws {Deno.errors.AddrInUse} If another process listens there.
 * @throws {Error} If the port cannot be bound for another reason, or the certificate cannot be used.
 */
export type BindServer = (options: ServerOptions) => Promise<Server>;
