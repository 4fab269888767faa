import type { Gateway } from "../../gateway_interface.ts";

/** What a process serves: a gateway, or one for each host. */
export type Served = Pick<
  Gateway,
  | "ready"
  | "fetch"
  | "fetchHealth"
  | "reload"
  | "beginShutdown"
  | "finishIncoming"
  | "close"
>;
