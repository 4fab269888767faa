import { svelteKitHandle } from "@rep/gateway/server";
import { building, dev } from "$app/environment";

export const handle = svelteKitHandle({ building, dev }, {
  envFile: { path: "app.env", required: false },
});
