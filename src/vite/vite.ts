/**
 * The parts of Vite's API that the plugin uses, from version 6 on. The plugin depends on Vite by structure, so that it
 * needs no particular version of it as a package.
 */
import type { NodeHandler } from "../http/node_handler.ts";

/** Where Vite prints. */
export interface ViteLogger {
  /** Prints a message. */
  info(message: string, options?: { timestamp?: boolean }): void;
  /** Prints a warning. */
  warn(message: string, options?: { timestamp?: boolean }): void;
  /** Prints an error. */
  error(message: string, options?: { timestamp?: boolean }): void;
}

/** Vite's configuration as the user has written it. */
export interface ViteUserConfig {
  /** The folder of the project; by default, the current one. */
  readonly root?: string | undefined;
  /** What names in `import.meta.env` begin with. */
  readonly envPrefix?: string | readonly string[] | undefined;
  /** Options of the development server. */
  readonly server?: {
    readonly fs?: { readonly deny?: readonly string[] | undefined } | undefined;
  } | undefined;
}

/** Vite's configuration after all plugins have seen it. */
export interface ViteConfig {
  /** `build` in a build, and `serve` in both servers. */
  readonly command: string;
  /** The folder of the project. */
  readonly root: string;
  /** The mode, such as `development`. */
  readonly mode?: string;
  /** The folder of Vite's own env files, if it has any. */
  readonly envDir?: string | false;
  /** All plugins. */
  readonly plugins?: readonly { readonly name: string }[];
  /** The public base path, such as `/app/`. */
  readonly base: string;
  /** The folder of the files that a build contains as they are; empty if there is none. */
  readonly publicDir: string;
  /** Where a build is, and whether it contains the public files. */
  readonly build: {
    readonly outDir: string;
    readonly copyPublicDir?: boolean | undefined;
  };
  /** Options of the development server. */
  readonly server: {
    readonly allowedHosts?: readonly string[] | true | undefined;
  };
  /** Options of the preview server. */
  readonly preview: {
    readonly allowedHosts?: readonly string[] | true | undefined;
  };
  /** Where to print. */
  readonly logger: ViteLogger;
  /** What names in `import.meta.env` begin with. */
  readonly envPrefix?: string | readonly string[] | undefined;
}

/** The handlers of a server, in order. */
export interface ViteMiddlewares {
  /** Adds a handler. */
  use(handler: NodeHandler): unknown;
}

/** What the page's overlay shows. */
export interface ViteError {
  /** What is wrong. */
  message: string;
  /** The overlay shows it below the message. */
  stack: string;
  /** Who says so. */
  plugin: string;
}

/** The connection to the open pages. */
export interface ViteWebSocket {
  /** The open pages. */
  readonly clients: { readonly size: number };
  /** Sends a message to all open pages. */
  send(
    message:
      | { type: "error"; err: ViteError }
      | { type: "update"; updates: [] }
      | { type: "full-reload" },
  ): void;
  /** Calls back when a page has connected. */
  on(event: "connection", listener: () => void): void;
}

/** The development server. */
export interface ViteDevServer {
  /** Its handlers. */
  readonly middlewares: ViteMiddlewares;
  /** The connection to the open pages. */
  readonly ws: ViteWebSocket;
}

/** The development server as well. */
export interface ViteRestart {
  /** Starts it again, with the configuration file read anew. */
  restart(): Promise<void>;
}

/** The part of Vite's configuration that decides about `import.meta.env`. */
export interface ViteEnv {
  /** What `import.meta.env` has from Vite's env files and the environment. */
  readonly env: Readonly<Record<string, unknown>>;
  /** Whether this is the configuration of the workers in a build. */
  readonly isWorker: boolean;
  /** All plugins. */
  readonly plugins?: readonly { readonly name: string }[];
  /** Where to print. */
  readonly logger: ViteLogger;
}

/** The preview server. */
export interface VitePreviewServer {
  /** Its handlers. */
  readonly middlewares: ViteMiddlewares;
  /** The server that listens. */
  readonly httpServer: { on(event: "close", listener: () => void): unknown };
}

/** A file of a build. */
export type ViteOutput =
  | { readonly type: "chunk"; readonly fileName: string; readonly code: string }
  | {
    readonly type: "asset";
    readonly fileName: string;
    readonly source: string | Uint8Array;
  };

/** What a plugin can call when it transforms a module. */
export interface ViteParser {
  /** Parses JavaScript. */
  parse(code: string): unknown;
}
