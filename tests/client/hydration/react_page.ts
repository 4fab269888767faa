import { createElement } from "react";
import { hydrateRoot } from "react-dom/client";
import { onChange } from "../../../src/client/mod.ts";
import { App } from "./react_app.ts";

declare const document: { querySelector(selector: string): never };

onChange("TITLE", (changedTitle) => {
  Object.assign(globalThis, { changedTitle });
});
Object.assign(globalThis, {
  hydrate: () => {
    hydrateRoot(document.querySelector("#app"), createElement(App));
  },
});
