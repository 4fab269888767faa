import { concat } from "../values/concat.ts";
import { HtmlTokenizer, type Token } from "./html_tokenizer.ts";
import { insertScript } from "./insert_script.ts";

/** A range of a document, in bytes. */
interface Range {
  readonly start: number;
  readonly end: number;
}

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
  let end = 0;
  for (const { element } of findConfigScripts(document)) {
    kept.push(document.subarray(end, element.start));
    end = element.end;
  }
  const without = concat([...kept, document.subarray(end)]);
  const result = insertScript(without, script);
  return result === without ? undefined : result;
}

/** Returns the text of the script element that was injected into a document earlier, if there is one. */
export function readConfigScript(document: Uint8Array): string | undefined {
  const [found] = findConfigScripts(document);
  return found &&
    new TextDecoder().decode(
      document.subarray(found.text.start, found.text.end),
    );
}

interface ConfigScriptRange {
  readonly element: Range;
  readonly text: Range;
}

function findConfigScripts(document: Uint8Array): ConfigScriptRange[] {
  const found: ConfigScriptRange[] = [];
  let open: Token | undefined;
  for (const token of new HtmlTokenizer().read(document)) {
    if (open !== undefined) {
      const element = { start: open.start, end: token.end };
      const text = { start: open.end, end: token.start };
      found.push({ element, text });
    }
    const isScript = token.kind === "startTag" && token.name === "script";
    open = isScript && hasConfigId(document, token) ? token : undefined;
  }
  return found;
}

function hasConfigId(document: Uint8Array, { start, end }: Range): boolean {
  const tag = new TextDecoder("latin1").decode(document.subarray(start, end));
  return /\sid\s*=\s*(["']?)__rep__\1[\s/>]/i.test(tag);
}
