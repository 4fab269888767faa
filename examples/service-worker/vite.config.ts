import { defineConfig, type Plugin } from "vite";
import { VitePWA } from "vite-plugin-pwa";

/** Lets the browser load `@rep/gateway/client` from the gateway, so that it is neither installed nor bundled. */
function clientFromGateway(): Plugin {
  const client = "@rep/gateway/client";
  return {
    name: "client-from-gateway",
    enforce: "pre",
    // Vite must not look for the client, neither before it starts nor when it transforms the imports of a module ahead.
    config: () => ({
      optimizeDeps: { exclude: [client] },
      server: { preTransformRequests: false },
    }),
    resolveId: (id) =>
      id === client ? { id: "/rep/client.js", external: true } : undefined,
  };
}

export default defineConfig({
  plugins: [
    clientFromGateway(),
    VitePWA({
      registerType: "autoUpdate",
      manifest: false,
      workbox: {
        globPatterns: ["**/*.{js,css}"], // no pages: precached pages have no configuration
        navigateFallback: null,
        runtimeCaching: [
          {
            urlPattern: ({ request }) => request.mode === "navigate",
            handler: "NetworkFirst",
            options: {
              cacheName: "pages",
              plugins: [{
                // Every URL of the app is the same page.
                cacheKeyWillBeUsed: () => Promise.resolve("/"),
                // A page with SENSITIVE values must not be stored. Workbox itself does not look at Cache-Control.
                cacheWillUpdate: ({ response }) => {
                  const isSecret = response.headers.get("cache-control")
                    ?.includes("no-store");
                  return Promise.resolve(
                    response.ok && !isSecret ? response : null,
                  );
                },
              }],
            },
          },
          {
            urlPattern: ({ url }) => url.pathname === "/rep/client.js",
            handler: "NetworkFirst",
            options: { cacheName: "client" },
          },
        ],
      },
    }),
  ],
});
