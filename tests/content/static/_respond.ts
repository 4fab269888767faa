import type { StaticFiles } from "../../../src/content/static/static_files.ts";

/** Responds to a request; with a page, as it is before the configuration is inserted. */
export async function respondWith(files: StaticFiles, request: Request): Promise<Response> {
  const result = await files.respond(request);
  if (result.kind !== "page") return result.response;
  const { bytes, headers } = result.page;
  return new Response(request.method === "HEAD" ? null : bytes, { headers });
}
