/**
 * The parts of Vite's API that the plugin uses, since version 6. These types replace those of Vite's package, so that
 * the plugin does not depend on one version of it.
 */

/** Prints a text to the terminal of Vite. */
type Print = (text: string, options?: { timestamp?: boolean }) => void;

/** Other names for modules, as an object or in the order in which they are tried. */
export type ViteAlias =
  | Readonly<Record<string, string>>
  | readonly { readonly find: string | RegExp }[];

/** Vite's configuration as the user wrote it. */
export interface ViteUserConfig {
  /** The folder of the project; the current folder by default. */
  readonly root?: string | undefined;
  /** The prefixes of names in `import.meta.env`. */
  readonly envPrefix?: string | readonly string[] | undefined;
  /** Options of the development server. */
  readonly server?: {
    readonly fs?: { readonly deny?: readonly string[] | undefined } | undefined;
  } | undefined;
  /** Plugins, and lists of them. */
  readonly plugins?: readonly unknown[] | undefined;
  /** How modules are found. */
  readonly resolve?: { readonly alias?: ViteAlias | undefined } | undefined;
  /** Options of Vitest. */
  readonly test?: { readonly alias?: ViteAlias | undefined } | undefined;
}

/** Vite's configuration after all plugins have changed it. */
export interface ViteConfig {
  /** `build` for a build, `serve` for both servers. */
  readonly command: string;
  /** The folder of the project. */
  readonly root: string;
  /** All plugins. */
  readonly plugins?: readonly { readonly name: string }[];
  /** The public base path, such as `/app/`. */
  readonly base: string;
  /** The folder of the files that a build copies unchanged; empty if there is none. */
  readonly publicDir: string;
  /** The output folder of a build, and whether the build copies the public files. */
  readonly build: {
    readonly outDir: string;
    readonly copyPublicDir?: boolean | undefined;
  };
  /**
   * Options of the development server. In `allowedHosts`, a leading dot stands for a domain and its subdomains; `true`
   * allows any host.
   */
  readonly server: {
    readonly allowedHosts?: readonly string[] | true | undefined;
  };
  /** Options of the preview server. */
  readonly preview: ViteConfig["server"];
  /** Prints to the terminal; `warnOnce` prints no text twice. */
  readonly logger: Readonly<
    Record<"info" | "warn" | "warnOnce" | "error", Print>
  >;
  /** The prefixes of names in `import.meta.env`. */
  readonly envPrefix?: ViteUserConfig["envPrefix"];
  /** The values of `import.meta.env` from Vite's env files and the environment. */
  readonly env: Readonly<Record<string, unknown>>;
  /** The expressions that Vite replaces. */
  readonly define?: Readonly<Record<string, unknown>> | undefined;
  /** Whether this is the configuration of the workers in a build. */
  readonly isWorker: boolean;
}

/** The list of a server's handlers. */
export interface ViteMiddlewares {
  /**
   * Adds a handler at the end. Its type is not given: in projects without the types of Node.js, Vite's own type of a
   * handler knows nothing of requests, and no other type would fit.
   */
  use(handler: object): unknown;
}

/** The connection to the open pages. */
export interface ViteWebSocket {
  /** The open pages. */
  readonly clients: { readonly size: number };
  /** Sends a message to all open pages. */
  send(
    message:
      | {
        type: "error";
        /** The overlay shows the stack below the message. */
        err: { message: string; stack: string; plugin: string };
      }
      | { type: "update"; updates: [] }
      | { type: "full-reload" },
  ): void;
  /** Calls the listener when a page has connected. */
  on(event: "connection", listener: () => void): void;
}

/** The development server. */
export interface ViteDevServer {
  /** Its handlers. */
  readonly middlewares: ViteMiddlewares;
  /** The connection to the open pages. */
  readonly ws: ViteWebSocket;
  /** Reads the configuration file again and restarts the server. */
  restart(): Promise<void>;
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

/** The functions that Vite offers a plugin that transforms a module. */
export interface ViteParser {
  /** Parses JavaScript. */
  parse(code: string): unknown;
}
