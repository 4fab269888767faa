import { rep } from "@rep/gateway/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react(), rep({ manifest: ".rep.yaml", envFile: "app.env" })],
});
