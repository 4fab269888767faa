import type { GatewayOptions } from "../src/options.ts";
import type { Payload } from "../src/core/pages/payload.ts";
import { memoryStore } from "../src/engines/memory.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { TempDirectory } from "./_temp.ts";

/** Returns the payload in the page that a gateway serves. */
export async function pageOf(gate: TestGateway): Promise<Payload> {
  const html = await (await gate.ask("/")).text();
  const json = /<script id="__rep__"[^>]*>([^<]*)</.exec(html)?.[1];
  return JSON.parse(json ?? "null");
}

/** Returns the PUBLIC values in that page. */
export async function pageValues(
  gate: TestGateway,
): Promise<Record<string, string>> {
  return (await pageOf(gate)).public;
}

/** Starts gateways on one store and one clock, each with a page to serve. */
export async function shareStore() {
  const directory = await TempDirectory.make({ "index.html": "<head></head>" });
  const options = {
    store: memoryStore(),
    clock: new FakeClock(),
    random: () => 0,
    staticDir: directory.path,
  };
  return {
    ...options,
    start: (variables: Record<string, string>, more: GatewayOptions = {}) =>
      setUp(variables, { ...options, ...more }),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}
