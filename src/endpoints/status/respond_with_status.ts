import {
  internalHostRule,
  requireAllowedHost,
} from "../../http/allowed_hosts.ts";
import type { RouteContext } from "../../http/routes.ts";
import { STATUS_PAGE, STATUS_POLICY } from "./bundle.ts";
import { markup } from "./markup.ts";
import { renderStatus } from "./render.ts";
import { createStatus, type StatusParts } from "./status.ts";

const HEADERS = {
  "cache-control": "no-store",
  "vary": "accept",
  "x-content-type-options": "nosniff",
};
const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": STATUS_POLICY,
};

/**
 * Handles `GET /status`: a page for operators, or the same as JSON for those who ask for JSON and not for HTML. Nothing
 * can be changed with it.
 *
 * @throws {Problem} 421 if the host is neither an address, nor `localhost`, nor allowed.
 */
export async function respondWithStatus(
  { headers }: Request,
  { url }: Pick<RouteContext, "url">,
  parts: StatusParts,
): Promise<Response> {
  requireAllowedHost(url.origin, internalHostRule(parts.allowedHosts));
  const status = await createStatus(parts);
  const accept = headers.get("accept") ?? "";
  if (accept.includes("json") && !accept.includes("html")) {
    return Response.json(status, { headers: HEADERS });
  }
  const title = String(markup`<title>${status.place && `${status.place}: `}`);
  const page = STATUS_PAGE.replace("<title>", () => title).replace(
    "</main>",
    () => `${renderStatus(status)}</main>`,
  );
  return new Response(page, { headers: { ...HEADERS, ...PAGE_HEADERS } });
}
