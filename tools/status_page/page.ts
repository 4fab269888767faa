/** The script of the status page, which `bundle_client.ts` bundles: it asks for the page again and shows what differs. */

const POLL_MS = 2_000;
/** A gateway that takes longer is as good as gone. */
const TIMEOUT_MS = 5_000;

/** The parts of the DOM that are used. Its whole library cannot be used together with that of Deno. */
interface PageNode {
  readonly nodeName: string;
  readonly childNodes: Iterable<PageNode>;
  /** Text has none. */
  readonly attributes?: Iterable<
    { readonly name: string; readonly value: string }
  >;
  className: string;
  textContent: string;
  readonly previousElementSibling: PageNode;
  readonly clientWidth: number;
  readonly clientHeight: number;
  readonly scrollWidth: number;
  readonly scrollHeight: number;
  isEqualNode(other: PageNode): boolean;
  setAttribute(name: string, value: string): void;
  append(child: PageNode): void;
  replaceWith(other: PageNode): void;
  remove(): void;
}

declare const document: {
  readonly hidden: boolean;
  querySelector(selector: string): PageNode;
  querySelectorAll(selector: string): Iterable<PageNode>;
};
declare const DOMParser: {
  new (): {
    parseFromString(text: string, type: "text/html"): typeof document;
  };
};

const connection = document.querySelector("#connection");
const main = document.querySelector("main");

async function poll(): Promise<void> {
  if (!document.hidden) await refresh().then(reportUpdated, reportGone);
  setTimeout(poll, POLL_MS);
}

async function refresh(): Promise<void> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const path = location.pathname + location.search; // of a site
  const response = await fetch(path, { signal });
  if (!response.ok) throw new Error(`Status ${response.status}`);
  const text = await response.text();
  const page = new DOMParser().parseFromString(text, "text/html");
  update(main, page.querySelector("main"));
  showHints();
}

/** Says of each table that it scrolls, if it does. */
function showHints(): void {
  for (const table of document.querySelectorAll(".table")) {
    const isWhole = table.scrollWidth <= table.clientWidth &&
      table.scrollHeight <= table.clientHeight;
    table.previousElementSibling.className = isWhole ? "hint" : "hint needed";
  }
}

function reportUpdated(): void {
  report("Updated every 2 s, times in UTC", "");
}

function reportGone(): void {
  const last = document.querySelector("dl > :last-child time").textContent;
  report(
    `The gateway does not answer. Below is what it said at ${last}`,
    "gone",
  );
}

/** A screen reader reads the text aloud whenever it changes. */
function report(text: string, className: string): void {
  connection.className = className;
  if (connection.textContent !== text) connection.textContent = text;
}

/** Changes only what differs, so that the focus, what is selected or scrolled, and open details stay as they are. */
function update(current: PageNode, next: PageNode): void {
  if (current.isEqualNode(next)) return;
  for (const { name, value } of next.attributes ?? []) {
    current.setAttribute(name, value);
  }
  const children = [...current.childNodes];
  const wanted = [...next.childNodes];
  for (const [index, child] of wanted.entries()) {
    const old = children[index];
    if (old === undefined) current.append(child);
    else if (
      child.attributes !== undefined && old.nodeName === child.nodeName
    ) update(old, child);
    else if (!old.isEqualNode(child)) old.replaceWith(child);
  }
  for (const child of children.slice(wanted.length)) child.remove();
}

reportUpdated(); // the gateway has just sent the page
showHints();
addEventListener("resize", showHints);
addEventListener("toggle", showHints, { capture: true }); // details open, and do not bubble
setTimeout(poll, POLL_MS);
