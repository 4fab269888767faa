import { qwikCity } from "@builder.io/qwik-city/vite";
import { qwikVite } from "@builder.io/qwik/optimizer";
import { rep } from "@rep/gateway/vite";
import { defineConfig } from "vite";
import tsconfigPaths from "vite-tsconfig-paths";

export default defineConfig(() => ({
  plugins: [
    rep({
      manifest: ".rep.yaml",
      envFile: { path: "app.env", required: false },
    }),
    qwikCity(),
    qwikVite(),
    tsconfigPaths({ root: "." }),
  ],
}));
