import { createSSRApp, h } from "vue";
import { useRep, useRepSecure } from "../../../src/client/vue/mod.ts";

/** Creates an app of Vue that shows a PUBLIC variable and a SENSITIVE one. */
export function createApp() {
  return createSSRApp({
    setup() {
      const title = useRep("TITLE", "none");
      const key = useRepSecure("KEY");
      return () =>
        h("main", [
          h("h1", title.value),
          h("p", key.value ?? "loading"),
          h("small", "loading"),
        ]);
    },
  });
}
