import { rep } from "@rep/gateway/vite";
import { tanstackStart } from "@tanstack/react-start/plugin/vite";
import viteReact from "@vitejs/plugin-react";
import { nitro } from "nitro/vite";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [
    rep({
      manifest: ".rep.yaml",
      envFile: { path: "app.env", required: false },
    }),
    nitro(),
    tanstackStart(),
    viteReact(),
  ],
});
