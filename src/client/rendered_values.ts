import { getAll } from "@rep/gateway/client";
import type { Values } from "./page.ts";

const NONE: Values = {};

/** The variables with which this page was rendered. They do not change. */
let values: Values | undefined;

/**
 * Returns the PUBLIC variables with which the HTML of a page is rendered. While the browser hydrates the page, it returns
 * the same variables as on the server, even if a change has already arrived. It returns none if the server has no gateway
 * in its process.
 */
export function renderedValues(): Values {
  return "document" in globalThis
    ? (values ??= readValues()) ?? NONE
    : getAll();
}

/** Returns `undefined` if there are none, or none yet: a script may run before the browser has parsed them. */
function readValues(): Values | undefined {
  const { document } = globalThis as unknown as { document: PageDocument };
  const element = document.querySelector("#__rep__[data-rep-rendered]");
  if (!element) return undefined;
  try {
    return JSON.parse(element.textContent!).public;
  } catch {
    return undefined; // the client reports the error
  }
}

/** The part of a browser's `document` that this module uses. */
interface PageDocument {
  querySelector(selector: string): { textContent: string | null } | null;
}
