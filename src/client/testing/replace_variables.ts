import type { PublicVariables } from "@rep/gateway/client";
import { escapeForScript } from "../../core/pages/config_script.ts";
import { sriHash } from "../../core/values/hash.ts";

/** The element with the configuration, as the gateway writes it. The groups are the parts around the hash, and the text. */
const ELEMENT =
  /(<script id="__rep__"[^>]* data-rep-integrity=")[^"]*("[^>]*>)([^<]*)/;

/**
 * Replaces values of PUBLIC variables in a page, and the hash of the configuration. It is for tests in a browser that
 * rewrite the response of a server.
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
 * @param values PUBLIC variables by name. The other variables of the page keep their values.
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
  const json = escapeForScript(JSON.stringify(replaced));
  const changed = `${beforeHash}${await sriHash(json)}${afterHash}${json}`;
  return html.replace(element, () => changed);
}
