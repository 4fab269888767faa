import { assertEquals } from "@std/assert";
import { type DefaultTreeAdapterTypes as Tree, parse } from "parse5";
import { insertScript } from "../../../src/core/pages/insert_script.ts";

const CONTENT = '{"a":"\\u003c/script>"}';
const SCRIPT =
  `<script id="__rep__" type="application/json">${CONTENT}</script>`;

/** Nodes whose white space and comments nobody sees. The script begins the head, so that they may get into it. */
const INVISIBLE_TEXT: ReadonlySet<string> = new Set([
  "#document",
  "html",
  "head",
]);

/**
 * Compares the insertion into a document with an HTML parser: the script is an element of the head, with its exact text
 * and nowhere else, no byte of the document changes, and the parser builds the same tree as without the script.
 */
export function assertInserted(document: string): void {
  const page = withScript(document);
  const place = page.indexOf(SCRIPT);
  assertEquals(
    page.slice(0, place) + page.slice(place + SCRIPT.length),
    document,
  );
  const tree = parseHtml(page);
  const scripts = elementsIn(tree).filter(isConfigScript);
  assertEquals(scripts.map(({ childNodes }) => childNodes.map(summary)), [[
    CONTENT,
  ]], page);
  assertEquals(
    scripts.map(({ parentNode }) => parentNode?.nodeName),
    ["head"],
    page,
  );
  assertEquals(summary(tree), summary(parseHtml(document)), page);
}

function withScript(document: string) {
  const encoder = new TextEncoder();
  const page = insertScript(encoder.encode(document), encoder.encode(SCRIPT));
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(page);
}

/** Parses as a browser that runs scripts; it is the decoder of the bytes that removes a byte order mark. */
function parseHtml(text: string) {
  return parse(text.replace(/^\uFEFF/, ""), { scriptingEnabled: true });
}

function elementsIn(node: Tree.Node): Tree.Element[] {
  const below = childrenOf(node).flatMap(elementsIn);
  return "tagName" in node ? [node, ...below] : below;
}

function childrenOf(node: Tree.Node): Tree.Node[] {
  const content = "content" in node ? [node.content] : []; // of a <template>
  return [...content, ..."childNodes" in node ? node.childNodes : []];
}

function isConfigScript({ tagName, attrs }: Tree.Element) {
  return tagName === "script" &&
    attrs.some(({ name, value }) => name === "id" && value === "__rep__");
}

/** What a browser makes of a node, as a value to compare, without the script. */
function summary(node: Tree.Node): unknown {
  if ("value" in node) return node.value;
  if ("data" in node) return { comment: node.data };
  const attributes = "attrs" in node
    ? Object.fromEntries(node.attrs.map(({ name, value }) => [name, value]))
    : {};
  const mode = "mode" in node ? node.mode : undefined; // a doctype decides about the quirks mode
  return {
    name: node.nodeName,
    mode,
    attributes,
    children: visibleChildren(node),
  };
}

function visibleChildren(node: Tree.Node): unknown[] {
  const children = childrenOf(node).filter((child) =>
    !("tagName" in child && isConfigScript(child))
  ).map(summary);
  if (!INVISIBLE_TEXT.has(node.nodeName)) return joinTexts(children);
  return children.filter((child) =>
    typeof child === "string" ? child.trim() !== "" : !isComment(child)
  );
}

function isComment(child: unknown) {
  return child instanceof Object && "comment" in child;
}

/** Joins texts that only the script divided. */
function joinTexts(children: readonly unknown[]): unknown[] {
  const joined: unknown[] = [];
  for (const child of children) {
    const last = joined.at(-1);
    if (typeof child === "string" && typeof last === "string") {
      joined.splice(-1, 1, last + child);
    } else joined.push(child);
  }
  return joined;
}
