/**
 * Reloads a page of an app that was built with Vite when a lazy chunk of it is gone, because another build has replaced its
 * own. The plugin `@rep/gateway/vite` adds it to `index.html`.
 *
 * ```ts ignore
 * import { reloadOnLostChunk } from "@rep/gateway/lost-chunks";
 *
 * reloadOnLostChunk(); // in the entry of an app without index.html
 * ```
 *
 * @module
 */
import { buildOf, type PageDocument } from "./page_build.ts";

/** When this tab was last reloaded, in milliseconds since the Unix epoch. */
const RELOADED_AT = "rep:reloaded";
/** The shortest time between two reloads of a tab: something else may be wrong than the build. */
const PAUSE_MS = 600_000;

/**
 * Answers `vite:preloadError`: it asks for the page again, and reloads it if another build answers with 200. While the
 * browser is offline or the gateway is down, a reload would replace the app, and what was typed into it, by an error page.
 * It reloads a tab at most once in ten minutes, and never without `sessionStorage`, which remembers that. Before a reload,
 * it dispatches `rep:reload`: `event.preventDefault()` refuses. The error itself reaches the app as before.
 */
export function reloadOnLostChunk(): void {
  const page = globalThis as unknown as Page;
  page.addEventListener("vite:preloadError", () => void answer(page));
}

async function answer(page: Page): Promise<void> {
  const { document, location } = page;
  const build = buildOf(document);
  if (build === undefined || !mayReload()) return;
  const newBuild = await readBuild(location.href).catch(() => undefined); // offline
  if (newBuild === undefined || newBuild === build || !mayReload()) return;
  const detail = { newBuild, build };
  const event = new CustomEvent("rep:reload", { cancelable: true, detail });
  if (!page.dispatchEvent(event)) return;
  sessionStorage.setItem(RELOADED_AT, String(Date.now()));
  location.reload();
}

/** Returns whether the tab has storage, and was not reloaded in the last ten minutes. */
function mayReload(): boolean {
  try {
    sessionStorage.setItem("rep:test", "");
    const reloadedAt = Number(sessionStorage.getItem(RELOADED_AT));
    return Math.abs(Date.now() - reloadedAt) >= PAUSE_MS;
  } catch {
    return false;
  }
}

/** Returns the build that delivers a page now. Without the header, the gateway would take the request for one of a fragment. */
async function readBuild(url: string): Promise<string | undefined> {
  const response = await fetch(url, {
    cache: "no-store",
    headers: { accept: "text/html", "rep-page": "1" },
  });
  const html = await response.text();
  return response.status === 200 ? buildIn(html) : undefined;
}

/** The script's tag, and the build in it, in any form that what compresses HTML gives them. */
const TAG = /<script\b[^>]*\bid=["']?__rep__\b[^>]*>/gi;
const BUILD = /\bdata-rep-build=(?:"([^"]*)"|'([^']*)'|([^\s>]+))/i;
const ENTITY = /&(?:#(\d+)|(amp|quot|lt|gt));/g;
const CHARACTERS: Readonly<Record<string, string>> = {
  amp: "&",
  quot: '"',
  lt: "<",
  gt: ">",
};

/** Finds the build in the HTML of a page. It parses nothing, which policies forbid (Trusted Types). */
function buildIn(html: string): string | undefined {
  const tag = html.match(TAG)?.at(-1) ?? ""; // an earlier one may be in a comment
  const values = BUILD.exec(tag)?.slice(1) ?? [];
  const unescape = (entity: string, code: string, name: string) =>
    code ? String.fromCodePoint(Number(code)) : CHARACTERS[name] ?? entity;
  return values.find((value) => value)?.replace(ENTITY, unescape);
}

/** The parts of a page that this module uses. */
interface Page {
  readonly document: PageDocument;
  readonly location: { readonly href: string; reload(): void };
  addEventListener(type: string, listener: () => void): void;
  dispatchEvent(event: Event): boolean;
}
