import node from "@astrojs/node";
import { rep } from "@rep/gateway/vite";
import { defineConfig } from "astro/config";

export default defineConfig({
  output: "server",
  adapter: node({ mode: "standalone" }),
  vite: { plugins: [rep({ manifest: ".rep.yaml", envFile: "app.env" })] },
});
