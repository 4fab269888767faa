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
  return (request, response, next = () => {}) => {
    const isPage = ["GET", "HEAD"].includes(request.method ?? "") &&
      String(request.headers.accept).includes("text/html");
    if (!isPage) return next();
    findPage(request, config).then(async (html) => {
      if (html === undefined) return next();
      const page = new TextEncoder().encode(await insert(html));
      response.writeHead(200, {
        "content-type": "text/html; charset=utf-8",
        "content-length": String(page.length),
        "cache-control": "no-store",
      });
      if (request.method !== "HEAD") response.write(page);
      response.end();
    }).catch(next);
  };
}

async function findPage(
  { url = "/" }: NodeRequest,
  config: ViteConfig,
): Promise<string | undefined> {
  const { root, base, appType, build } = config;
  const path = URL.parse(url, "http://localhost")?.pathname;
  if (!path?.startsWith(base)) return undefined;
  const folder = resolve(root, build.outDir);
  const name = decodePath(path.slice(base.length));
  const fallback = appType === "spa" ? ["index.html"] : [];
  for (const candidate of [...candidatesFor(name), ...fallback]) {
    const file = resolve(folder, candidate);
    const html = file.startsWith(folder + sep)
      ? await readFile(file, "utf8").catch(() => undefined)
      : undefined;
    if (html !== undefined) return html;
  }
  return undefined;
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
