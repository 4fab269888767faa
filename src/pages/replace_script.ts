import { concat } from "../values/chunks.ts";
import { HtmlTokenizer, type Token } from "./html_tokenizer.ts";
import { insertScript } from "./insert_script.ts";

/**
 * Puts a script element into a document in place of the one that was injected earlier, if there is one, at the
 * insertion point of {@linkcode insertScript}. No other byte changes, so doing it again with the same element changes
 * nothing.
 *
 * @returns The document; `undefined` if it is UTF-16, into which nothing can be inserted.
 */
export function replaceScript(
  document: Uint8Array<ArrayBuffer>,
  script: Uint8Array,
): Uint8Array<ArrayBuffer> | undefined {
  const kept: Uint8Array[] = [];
  let position = 0;
  for (const { element: [start, end] } of findConfigScripts(document)) {
    kept.push(document.subarray(position, start));
    position = end;
  }
  const without = concat([...kept, document.subarray(position)]);
  const result = insertScript(without, script);
  return result === without ? undefined : result;
}

/** Returns the text of the script element that was injected into a document earlier, if there is one. */
export function readConfigScript(document: Uint8Array): string | undefined {
  const [found] = findConfigScripts(document);
  if (found === undefined) return undefined;
  return new TextDecoder().decode(document.subarray(...found.text));
}

/** The offsets of the first byte, and of the byte after the last one. */
type Range = [start: number, end: number];

function findConfigScripts(
  document: Uint8Array,
): { element: Range; text: Range }[] {
  const found: { element: Range; text: Range }[] = [];
  let open: Token | undefined;
  for (const token of new HtmlTokenizer().read(document)) {
    if (open !== undefined) {
      found.push({
        element: [open.start, token.end],
        text: [open.end, token.start],
      });
    }
    open = isConfigTag(document, token) ? token : undefined;
  }
  return found;
}

function isConfigTag(document: Uint8Array, token: Token): boolean {
  if (token.kind !== "startTag" || token.name !== "script") return false;
  const bytes = document.subarray(token.start, token.end);
  const tag = new TextDecoder("latin1").decode(bytes);
  return /\sid\s*=\s*(["']?)__rep__\1[\s/>]/i.test(tag);
}
