/**
 * Tells a page that another build of the app has replaced its own. This is beside the client, since most pages do not need
 * it.
 *
 * ```ts
 * import { onNewBuild } from "@rep/gateway/builds";
 * import { assertEquals } from "@std/assert";
 *
 * let notice = "";
 * const stop = onNewBuild(() => notice = "A new version is there: reload");
 *
 * stop();
 * assertEquals(notice, ""); // outside a page, there are no builds
 * ```
 *
 * @module
 */
import {
  onAnyChange,
  onStatus,
  status,
  type StreamStatus,
} from "@rep/gateway/client";
import { buildOf, type PageDocument } from "./page_build.ts";

/** Receives the ID of the build that a reload brings, and of the page's own. */
export type NewBuildCallback = (newBuild: string, build: string) => void;

/** The builds that this page was told of, and whether they were news for its tab. */
const isNews = new Map<string, boolean>();

/**
 * Calls back when no gateway delivers the page's build any more, so that a reload brings another one: once for each build
 * and tab, until a reload brings that build: a page that a cache keeps does not reload again and again. Like
 * {@linkcode onAnyChange}, it opens the stream of changes; pages that poll in an interval (`--poll`) are not told.
 *
 * @returns A function that ends the subscription.
 */
export function onNewBuild(callback: NewBuildCallback): () => void {
  const told = new Set<string>();
  forgetOwnBuild();

  function tell({ newBuild }: StreamStatus) {
    if (newBuild === undefined || told.has(newBuild)) return;
    told.add(newBuild);
    if (isNewForTab(newBuild)) callback(newBuild, pageBuild() ?? "");
  }

  const stopStream = onAnyChange(() => {});
  const stopStatus = onStatus(tell);
  let isActive = true;
  queueMicrotask(() => isActive && tell(status())); // the page may know it already
  return () => {
    isActive = false;
    stopStatus();
    stopStream();
  };
}

/** Forgets that an earlier page of the tab was told of this page's build: if a rollback replaces it, it may come again. */
function forgetOwnBuild(): void {
  try {
    sessionStorage.removeItem(keyOf(pageBuild() ?? ""));
  } catch {
    // The page has no access to storage, or there is none.
  }
}

/**
 * Returns whether no earlier page of the tab that had this page's build was told of a build. Pages of other builds do not
 * count: a reload may have brought this page since then. Without storage, nobody knows of earlier pages.
 */
function isNewForTab(build: string): boolean {
  const known = isNews.get(build);
  if (known !== undefined) return known;
  let isNew = true;
  try {
    const key = keyOf(build);
    const pages = sessionStorage.getItem(key)?.split(" ") ?? [];
    const own = pageBuild() ?? "";
    isNew = !pages.includes(own);
    if (isNew) sessionStorage.setItem(key, [...pages, own].join(" "));
  } catch {
    // The page has no access to storage, or it is full.
  }
  isNews.set(build, isNew);
  return isNew;
}

function keyOf(build: string): string {
  return `rep:build:${build}`;
}

/** Returns the ID of the page's build; `undefined` if it is unknown, and outside a page. */
function pageBuild(): string | undefined {
  const { document } = globalThis as unknown as { document?: PageDocument };
  return document && buildOf(document);
}
