/** An app that runs before the browser has parsed the configuration of its page. */
import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { createApp, h } from "vue";
import * as client from "../../src/client/mod.ts";
import { useRep as useReactRep } from "../../src/client/react/mod.ts";
import { useRep as useVueRep } from "../../src/client/vue/mod.ts";

declare const document: {
  createElement(name: string): { readonly textContent: string };
};

const { get, getSecure, onChange } = client;

function React() {
  return createElement("p", null, useReactRep("A", "default"));
}

const Vue = {
  setup() {
    const value = useVueRep("A", "default");
    return () => h("p", value.value);
  },
};

const reactRoot = document.createElement("div");
createRoot(reactRoot as never).render(createElement(React));
const vueRoot = document.createElement("div");
createApp(Vue).mount(vueRoot);

const app = {
  client,
  early: [get("A", "default"), client.meta(), client.verify()],
  seen: [] as unknown[],
  secret: undefined as string | undefined,
  rendered: () => [reactRoot.textContent, vueRoot.textContent],
};
onChange("A", (...values) => app.seen.push(values));
getSecure("S").then((secret) => app.secret = secret);
Object.assign(globalThis, { app });
// The server sends the rest of the page when the components have been rendered.
setTimeout(() => fetch("/ran"), 100);
