/**
 * The gateway in the server of a framework, on Node.js.
 *
 * @module
 */
export {
  connectionInfo,
  type PlainServerOptions,
  respond,
  type ServerOptions,
  startGateway,
} from "./start_gateway.ts";
export {
  type SvelteKitHandle,
  svelteKitHandle,
  type SvelteKitInput,
} from "./sveltekit.ts";
export {
  astro,
  type AstroContext,
  type AstroIntegration,
  type AstroMiddleware,
  astroMiddleware,
  type AstroSetup,
} from "./astro.ts";
export {
  type NitroApp,
  type NitroEvent,
  nitroPlugin,
  nuxt,
  type NuxtLike,
  type NuxtModule,
} from "./nuxt.ts";
