import { nuxt as rep } from "@rep/gateway/server";

export default defineNuxtConfig({
  compatibilityDate: "2025-07-15",
  modules: [rep({ envFile: { path: "app.env", required: false } })],
});
