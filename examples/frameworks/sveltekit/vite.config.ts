import { rep } from "@rep/gateway/vite";
import adapter from "@sveltejs/adapter-node";
import { sveltekit } from "@sveltejs/kit/vite";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [
    rep({
      manifest: ".rep.yaml",
      envFile: { path: "app.env", required: false },
    }),
    sveltekit({ adapter: adapter() }),
  ],
});
