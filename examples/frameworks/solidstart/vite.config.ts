import { rep } from "@rep/gateway/vite";
import { solidStart } from "@solidjs/start/config";
import { nitro } from "nitro/vite";
import { defineConfig } from "vite";

export default defineConfig({
  optimizeDeps: { include: ["@jridgewell/trace-mapping"] }, // SolidStart 2.0.5 needs it in development
  plugins: [
    rep({
      manifest: ".rep.yaml",
      envFile: { path: "app.env", required: false },
    }),
    solidStart(),
    nitro(),
  ],
});
