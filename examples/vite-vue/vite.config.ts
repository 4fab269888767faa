import { rep } from "@rep/gateway/vite";
import vue from "@vitejs/plugin-vue";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [vue(), rep({ manifest: ".rep.yaml", envFile: "app.env" })],
});
