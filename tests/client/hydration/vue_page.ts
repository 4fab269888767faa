import { onChange } from "../../../src/client/mod.ts";
import { createApp } from "./vue_app.ts";

declare const document: { querySelector(selector: string): never };

onChange("TITLE", (changedTitle) => {
  Object.assign(globalThis, { changedTitle });
});
Object.assign(globalThis, {
  hydrate: () => {
    createApp().mount(document.querySelector("#app"));
  },
});
