import { FakeClock } from "../../../../tools/fake_clock.ts";
import { createProxy, respond } from "../_servers.ts";

/** A request without a body, and how much time passes after its response. */
export interface Step {
  readonly headers?: Record<string, string>;
  readonly passMs?: number;
}

/** Sends requests through the proxy, one after the other, and prints the bodies of the responses in one line. */
if (import.meta.main) {
  const [upstream, steps] = Deno.args;
  const clock = new FakeClock();
  const proxy = createProxy(new URL(upstream!), { clock });
  const context = {
    client: {
      address: "192.0.2.7",
      clientKey: "192.0.2.7",
      origin: "https://app.example",
    },
    url: { origin: "https://app.example", path: "/", search: "" },
  };
  const bodies: string[] = [];
  for (const { headers = {}, passMs = 0 } of JSON.parse(steps!) as Step[]) {
    const request = new Request("http://host/", { headers });
    bodies.push(await (await respond(proxy, request, context)).text());
    await clock.tick(0); // a connection becomes idle one turn after its last byte
    await clock.tick(passMs);
  }
  await Deno.stdout.write(new TextEncoder().encode(bodies.join(" ")));
  proxy.close();
}
