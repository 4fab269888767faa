import type { Duplex } from "node:stream";

/** The connection of a request, for a protocol other than HTTP. */
export interface UpgradedConnection {
  readonly socket: Duplex;
  /** What the client has already sent in the new protocol. */
  readonly head: Uint8Array;
}

/**
 * A request for another protocol whose connection the handler can take over, since it did not come from `Deno.serve`,
 * where `Deno.upgradeWebSocket` does that.
 */
export abstract class UpgradableRequest extends Request {
  /** Takes the connection over. The response of the handler is then ignored. */
  abstract takeOver(): UpgradedConnection;
}
