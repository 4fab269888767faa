import { createSSRApp, h } from "vue";
import { useRep } from "../../../src/client/vue/mod.ts";

/** Creates an app of Vue whose title is a variable. */
export function createApp() {
  return createSSRApp({
    setup() {
      const title = useRep("TITLE", "none");
      return () => h("h1", title.value);
    },
  });
}
