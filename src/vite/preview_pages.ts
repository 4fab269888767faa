import { readFile } from "node:fs/promises";
import { resolve, sep } from "node:path";
import type { NodeHandler, NodeRequest } from "../http/node_handler.ts";
import type { ViteConfig } from "./vite.ts";

/**
 * Returns a handler for the pages of a build, which Vite's preview server would send as they are. Anything else is left
 * to it.
 *
 * @param insert Inserts the configuration into a page.
 */
export function insertIntoBuiltPages(
  config: ViteConfig,
  insert: (html: string) => Promise<string>,
): NodeHandler {
  return async (request, response, next = () => {}) => {
    try {
      const html = await findPage(request, config);
      if (html === undefined) return next();
      const page = new TextEncoder().encode(await insert(html));
      response.writeHead(200, {
        "content-type": "text/html; charset=utf-8",
        "content-length": String(page.length),
        "cache-control": "no-store",
      });
      if (request.method !== "HEAD") response.write(page);
      response.end();
    } catch (error) {
      next(error);
    }
  };
}

/** Returns the page of the build that a request is for; `undefined` if it is for something else. */
async function findPage(
  { method = "", headers, url = "/" }: NodeRequest,
  { root, base, appType, build }: ViteConfig,
): Promise<string | undefined> {
  const isRead = method === "GET" || method === "HEAD";
  if (!isRead || !String(headers.accept).includes("text/html")) return;
  const path = URL.parse(url, "http://localhost")?.pathname;
  if (!path?.startsWith(base)) return;
  const candidates = candidatesFor(decodePath(path.slice(base.length)));
  if (appType === "spa") candidates.push("index.html");
  const folder = resolve(root, build.outDir);
  for (const candidate of candidates) {
    const file = resolve(folder, candidate);
    if (!file.startsWith(folder + sep)) continue;
    const html = await readFile(file, "utf8").catch(() => undefined);
    if (html !== undefined) return html;
  }
}

/** As Vite's preview server looks for pages. */
function candidatesFor(name: string): string[] {
  if (name.endsWith(".html")) return [name];
  if (name === "" || name.endsWith("/")) return [`${name}index.html`];
  return /\.\w+$/.test(name) ? [] : [`${name}.html`, `${name}/index.html`];
}

function decodePath(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path; // no file has this name
  }
}
