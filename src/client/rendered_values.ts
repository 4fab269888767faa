import { getAll } from "@rep/gateway/client";
import type { Values } from "./page.ts";

const NONE: Values = {};

/** Those of this page, which do not change. */
let values: Values | undefined;

/**
 * Returns the PUBLIC variables that the HTML of a page is rendered with: on the server, and again while the page is
 * hydrated, even if a change has arrived before. There are none if the server has no gateway in its process.
 */
export function renderedValues(): Values {
  return "document" in globalThis ? values ??= readValues() : getAll();
}

function readValues(): Values {
  const { document } = globalThis as unknown as { document: PageDocument };
  const element = document.querySelector("#__rep__[data-rep-rendered]");
  if (!element) return NONE;
  try {
    return JSON.parse(element.textContent!).public ?? NONE;
  } catch {
    return NONE; // the client has reported it
  }
}

/** The part of a browser's `document` that is used. */
interface PageDocument {
  querySelector(selector: string): { textContent: string | null } | null;
}
