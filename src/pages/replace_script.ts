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
  const without = removeRanges(
    document,
    findConfigScripts(document).map(({ element }) => element),
  );
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
    const { kind, name, start, end } = token;
    if (open) {
      found.push({
        element: { start: open.start, end },
        text: { start: open.end, end: start },
      });
    }
    open =
      kind === "startTag" && name === "script" && hasConfigId(document, token)
        ? token
        : undefined;
  }
  return found;
}

function hasConfigId(document: Uint8Array, { start, end }: Range): boolean {
  const tag = new TextDecoder("latin1").decode(document.subarray(start, end));
  return /\sid\s*=\s*(["']?)__rep__\1[\s/>]/i.test(tag);
}

function removeRanges(
  document: Uint8Array<ArrayBuffer>,
  ranges: readonly Range[],
): Uint8Array<ArrayBuffer> {
  const starts = [0, ...ranges.map(({ end }) => end)];
  const ends = [...ranges.map(({ start }) => start), document.length];
  return concat(
    starts.map((start, index) => document.subarray(start, ends[index])),
  );
}
