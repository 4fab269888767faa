import vue from "@vitejs/plugin-vue";
import { defineConfig, type Plugin } from "vite";

/** Lets the browser load `@rep/gateway/client` from the gateway, so that it is neither installed nor bundled. */
function clientFromGateway(): Plugin {
  const client = "@rep/gateway/client";
  return {
    name: "client-from-gateway",
    enforce: "pre",
    // Vite must not look for the client, neither before it starts nor when it transforms the imports of a module ahead.
    config: () => ({ optimizeDeps: { exclude: [client] }, server: { preTransformRequests: false } }),
    resolveId: (id) => id === client ? { id: "/rep/client.js", external: true } : undefined,
  };
}

export default defineConfig({
  plugins: [vue(), clientFromGateway()],
});
