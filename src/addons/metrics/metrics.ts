import { STREAM_REJECTIONS } from "../../core/changes/stream_rejections.ts";
import { RELOAD_OUTCOMES } from "../../core/config/configuration.ts";
import { UPSTREAM_FAILURES } from "../../core/http/transfers.ts";
import { type Endpoint, READ_METHODS } from "../../core/http/routes.ts";
import type { LabelValues } from "../../core/observe/metrics.ts";
import { PROMETHEUS_TYPE, type Registry } from "./registry.ts";
import { STORE_OPERATIONS } from "../../core/store/circuit_breaker.ts";
import {
  CLIENT_REJECTIONS,
  SESSION_KEY_REJECTIONS,
} from "../../core/endpoints/session_key.ts";

/** The values of all labels that are known from the start. */
export const LABEL_VALUES: LabelValues = {
  "http.server.request.duration": [], // known once there are requests
  "rep.streams.rejected": Object.keys(STREAM_REJECTIONS),
  "rep.session_keys.rejected": SESSION_KEY_REJECTIONS,
  "rep.session_keys.rejected_clients": CLIENT_REJECTIONS,
  "rep.config.reloads": RELOAD_OUTCOMES,
  "rep.store.errors": STORE_OPERATIONS,
  "rep.store.duration": STORE_OPERATIONS,
  "rep.upstream.errors": UPSTREAM_FAILURES,
};

/** Creates the endpoint `GET /metrics`: all measurements in the text format of Prometheus. */
export function createMetricsEndpoint(registry: Registry): Endpoint {
  return {
    methods: READ_METHODS,
    handler({ method }) {
      const body = method === "HEAD" ? null : registry.format();
      const headers = {
        "content-type": PROMETHEUS_TYPE,
        "cache-control": "no-store",
      };
      return new Response(body, { headers });
    },
  };
}
