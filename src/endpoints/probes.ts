import { type HealthStatus, isUnavailable } from "./health.ts";

/** Where the probes are served, on the health port only. */
export const LIVE_PATH = "/livez";
/** See {@linkcode LIVE_PATH}. */
export const READY_PATH = "/readyz";

/** Handles `GET /livez`: 200 for as long as the process responds. */
export function handleLive(request: Request): Response {
  return probe(request, "live", 200);
}

/**
 * Handles `GET /readyz`: 503 while the gateway starts or stops. A degraded gateway is ready, since it serves
 * everything.
 */
export function handleReady(request: Request, status: HealthStatus): Response {
  return probe(request, status, isUnavailable(status) ? 503 : 200);
}

function probe({ method }: Request, text: string, status: number): Response {
  const headers = {
    "content-type": "text/plain; charset=utf-8",
    "cache-control": "no-store",
  };
  return new Response(method === "HEAD" ? null : `${text}\n`, {
    status,
    headers,
  });
}
