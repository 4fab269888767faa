import { reactRouter } from "@react-router/dev/vite";
import { rep } from "@rep/gateway/vite";
import tailwindcss from "@tailwindcss/vite";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [
    rep({
      manifest: ".rep.yaml",
      envFile: { path: "app.env", required: false },
    }),
    tailwindcss(),
    reactRouter(),
  ],
  resolve: {
    tsconfigPaths: true,
  },
});
