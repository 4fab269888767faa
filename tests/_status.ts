import type { Status } from "../src/addons/status/status.ts";
import type { Gateway } from "../src/gateway_interface.ts";

type StatusGateway = { readonly gateway: Pick<Gateway, "fetchHealth"> };

/** Requests the status page of a gateway, as through a forwarded port. */
export async function askStatus(
  { gateway }: StatusGateway,
  init: RequestInit = {},
  host = "127.0.0.1:9090",
) {
  return await gateway.fetchHealth(new Request(`http://${host}/status`, init));
}

/** Returns the status as JSON. */
export async function readStatus(gate: StatusGateway): Promise<Status> {
  return await (await askStatus(gate, {
    headers: { accept: "application/json" },
  })).json();
}
