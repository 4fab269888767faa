import type {
  PublicVariables,
  SensitiveVariables,
  ServerVariables,
} from "@rep/gateway/client";
import type {
  ReloadOptions,
  ValueListener,
} from "./core/config/configuration.ts";
import type { ConnectionInfo } from "./core/http/respond.ts";
import type { CloseOptions } from "./core/shutdown.ts";

export type { CloseOptions } from "./core/shutdown.ts";

/** The variables that a server reads with {@linkcode Gateway.getPrivate}, by name. */
export type PrivateVariables = SensitiveVariables & ServerVariables;

/** A running gateway. */
export interface Gateway extends AsyncDisposable {
  /**
   * Resolves as soon as the gateway serves its configuration: usually before it is returned, but only after its store
   * has been read once. Until then, requests get 503, variables are `undefined`, and {@linkcode inject} replaces pages
   * by a 503. It rejects if the start fails, for example because of invalid variables, and stays pending if the
   * gateway is closed before.
   */
  readonly ready: Promise<void>;
  /**
   * Responds to every request; pass it to `Deno.serve`. Without `info`, all clients share one rate limit.
   */
  fetch(request: Request, info?: ConnectionInfo): Response | Promise<Response>;
  /**
   * Responds to a request if its path is the gateway's own, for servers with other routes; else returns `undefined`.
   */
  handle(
    request: Request,
    info?: ConnectionInfo,
  ): Promise<Response | undefined>;
  /**
   * Injects the configuration into a response if it is an HTML page, in place of one that its head has already, and
   * returns any other response unchanged. HTML that a script requests (`Sec-Fetch-Dest: empty`) is a fragment, whose body
   * is not changed, except for navigations that a service worker passes on. Pass complete pages: a 304 of your own would
   * confirm a page with an old configuration, or a stored fragment.
   *
   * @param request The request that is responded to: the response to HEAD has no body, and `If-None-Match` may make it
   * a 304.
   */
  inject(response: Response, request?: Request): Promise<Response>;
  /**
   * Returns the configuration as an element, `<script id="__rep__" …>`, for frameworks that render the document
   * themselves: put it into the `<head>`, or at the beginning of the body. The element that {@linkcode inject} inserts is
   * the same, but not its headers: send such a page with `Cache-Control: no-store` if there are SENSITIVE variables,
   * otherwise with `no-cache`.
   */
  configScript(): Promise<string>;
  /**
   * Calls a function, and returns what it returns. Within it, and in what it starts, `get()`, `getAll()` and
   * `useRep()` of the client return the PUBLIC values of this gateway as they are now, and {@linkcode inject} and
   * {@linkcode configScript} put the same values into the page, even if the variables are reloaded in between.
   * `toNodeHandler()` calls the next middleware in this way.
   *
   * Outside of it, the client returns the current values of the gateway of the process that was started last. It is the same
   * where `node:async_hooks` is missing, as in workers without `nodejs_als`.
   */
  run<Result>(callback: () => Result): Result;
  /** Responds to `GET /rep/health`, `/livez`, `/readyz`, `/metrics` and `/status` only, for a port that stays internal. */
  fetchHealth(request: Request): Response | Promise<Response>;
  /**
   * Reads the variables again, once the gateway is {@linkcode ready}.
   *
   * @throws {ConfigurationError} If they are invalid; then those stay that were last valid, with the newest variables
   * in the store.
   */
  reload(options?: ReloadOptions): Promise<void>;
  /** Returns the value of a PUBLIC variable; `undefined` if it is not set. For what a server renders itself. */
  get<Name extends keyof PublicVariables & string>(
    name: Name,
  ): PublicVariables[Name];
  /**
   * Returns the value of a SENSITIVE or a SERVER variable; `undefined` if it is not set. It has another name than
   * {@linkcode Gateway.get}, so that code that runs in a page as well cannot reveal it.
   */
  getPrivate<Name extends keyof PrivateVariables & string>(
    name: Name,
  ): PrivateVariables[Name];
  /**
   * Calls back after each reload of this process that changes a variable of any tier, with its new and its old value.
   *
   * @returns A function that ends the subscription.
   */
  onChange(
    name: keyof (PublicVariables & PrivateVariables) & string,
    listener: ValueListener,
  ): () => void;
  /**
   * Announces the shutdown while everything is still served: `GET /rep/health` is 503 `stopping`, and this replica
   * leaves the rollout. Give load balancers time to notice before {@linkcode close}.
   */
  beginShutdown(): void;
  /**
   * Waits until no body of a request is being received and no proxied WebSocket is open, both of which
   * `Deno.HttpServer.shutdown()` breaks. What it will break is logged. {@linkcode close} waits as well: call this one
   * before you shut down a server although the gateway goes on, such as for a new certificate.
   *
   * @param ms How long to wait at most, in milliseconds. More requests may arrive meanwhile.
   */
  finishIncoming(ms: number): Promise<void>;
  /**
   * Ends all streams, lets uploads, proxied requests and large responses in flight finish, then closes the connections
   * to the upstream. Calling it again has no effect. The store stays open.
   *
   * Pass the server's `shutdown()` as `stopListening` instead of calling it yourself: it breaks uploads over HTTP/1.1
   * and closes proxied WebSockets at once. What does not finish in time is logged.
   */
  close(options?: CloseOptions): Promise<void>;
}
