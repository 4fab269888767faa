import type { PublicVariables } from "@rep/gateway/client";
import { encode } from "../page.ts";

/** The element with the configuration, as the gateway writes it: its hash, what follows, and its text. */
const ELEMENT =
  /(<script id="__rep__"[^>]* data-rep-integrity=")[^"]*("[^>]*>)([^<]*)/;

/**
 * Returns a page with other values of PUBLIC variables, and with the hash of them, for tests in a browser that rewrite
 * what a server sends.
 *
 * @example
 * ```ts ignore
 * import { replaceVariables } from "@rep/gateway/testing";
 *
 * await page.route("/", async (route) => {
 *   const response = await route.fetch();
 *   const body = await replaceVariables(await response.text(), { TITLE: "Hello" });
 *   await route.fulfill({ response, body });
 * });
 * ```
 *
 * @param html The page, with its configuration.
 * @param values PUBLIC variables by name. The others of the page stay as they are.
 * @throws {Error} If the page has no configuration.
 */
export async function replaceVariables(
  html: string,
  values: Partial<PublicVariables>,
): Promise<string> {
  const [element, beforeHash, afterHash, text] = ELEMENT.exec(html) ?? [];
  if (element === undefined || text === undefined) {
    throw new Error(
      "Cannot replace variables: expected a page with a configuration, got none",
    );
  }
  const payload = JSON.parse(text);
  const replaced = { ...payload, public: { ...payload.public, ...values } };
  const json = escape(JSON.stringify(replaced));
  const digest = await crypto.subtle.digest("SHA-256", encode(json));
  const hash = btoa(String.fromCharCode(...new Uint8Array(digest)));
  const changed = `${beforeHash}sha256-${hash}${afterHash}${json}`;
  return html.replace(element, () => changed);
}

/** Escapes JSON so that it cannot end the element, and is the same in a page of any encoding. */
function escape(json: string): string {
  return json.replace(
    /[<\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
