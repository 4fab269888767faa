import { internalHostRule, requireAllowedHost } from "../../http/allowed_hosts.ts";
import type { RequestContext } from "../../http/routes.ts";
import { sriHash } from "../../values/hash.ts";
import type { HealthReport } from "../health.ts";
import { STATUS_SCRIPT, STATUS_STYLE } from "./bundle.ts";
import { renderStatus } from "./render.ts";
import { createStatus, type Status, type StatusParts } from "./status.ts";

/** Options of {@linkcode respondWithStatus}. */
interface StatusOptions extends StatusParts {
  readonly report: HealthReport;
  readonly allowedHosts: readonly string[];
}

const HEADERS = { "cache-control": "no-store", "vary": "accept", "x-content-type-options": "nosniff" };

/**
 * Handles `GET /status`: a page for operators, or the same as JSON for those who ask for JSON and not for HTML. Nothing
 * can be changed with it.
 *
 * @throws {Problem} 421 if the host is neither an address, nor `localhost`, nor allowed.
 */
export async function respondWithStatus(
  { headers }: Request,
  { url }: Pick<RequestContext, "url">,
  { report, allowedHosts, ...parts }: StatusOptions,
): Promise<Response> {
  requireAllowedHost(url.origin, internalHostRule(allowedHosts));
  const status = await createStatus(report, parts);
  const accept = headers.get("accept") ?? "";
  if (accept.includes("json") && !accept.includes("html")) return Response.json(status, { headers: HEADERS });
  const [style, script] = await Promise.all([sriHash(STATUS_STYLE), sriHash(STATUS_SCRIPT)]);
  const policy = `default-src 'none'; style-src '${style}'; script-src '${script}'; connect-src 'self'; ` +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
  const page = { ...HEADERS, "content-type": "text/html; charset=utf-8", "content-security-policy": policy };
  return new Response(createPage(status), { headers: page });
}

/** The script is at the end, where it finds all elements. */
function createPage(status: Status): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Status of the gateway</title><style>${STATUS_STYLE}</style></head>
<body><header><h1>Configuration gateway</h1><p id="connection" role="status">At <time>${status.time}</time></p></header>
<main>${renderStatus(status)}</main><script type="module">${STATUS_SCRIPT}</script></body></html>
`;
}
