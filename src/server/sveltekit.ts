import { respond, type ServerOptions, startOrExit } from "./start_gateway.ts";

/** What SvelteKit passes to its `handle` hook. */
export interface SvelteKitInput<Event> {
  /** The request, and what belongs to it. */
  readonly event: Event;
  /** Renders the page. */
  resolve(event: Event): Response | Promise<Response>;
}

/** The `handle` hook of SvelteKit. */
export type SvelteKitHandle = <Event extends { readonly request: Request }>(
  input: SvelteKitInput<Event>,
) => Promise<Response>;

/**
 * Returns the `handle` of `src/hooks.server.ts`, which starts the gateway with the server.
 *
 * ```ts ignore
 * import { svelteKitHandle } from "@rep/gateway/server";
 * import { building, dev } from "$app/environment";
 *
 * export const handle = svelteKitHandle({ building, dev }, { envFile: { path: "app.env", required: false } });
 * ```
 *
 * @param environment `building` and `dev` of `$app/environment`: a build must not contain values, and in development the
 * plugin for Vite serves them.
 */
export function svelteKitHandle(
  { building, dev }: { building: boolean; dev: boolean },
  options: ServerOptions = {},
): SvelteKitHandle {
  if (building || dev) {
    return async ({ event, resolve }) => await resolve(event);
  }
  void startOrExit(options);
  return ({ event, resolve }) =>
    respond(event.request, () => resolve(event), options);
}
