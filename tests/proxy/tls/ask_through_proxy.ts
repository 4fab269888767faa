import { createProxy } from "../../../src/proxy/proxy.ts";

/** Asks an upstream through the proxy, and prints what it answers: for a test of what a process trusts. */
if (import.meta.main) {
  const proxy = createProxy({ upstream: new URL(Deno.args[0]!) });
  const client = { address: "192.0.2.7", rateKey: "192.0.2.7", origin: "https://app.example" };
  const ask = async (path: string, init?: RequestInit) => {
    await new Promise(setImmediate); // a connection is free one turn after its last byte
    return await proxy(new Request(`http://host${path}`, init), client);
  };
  await (await ask("/first")).text();
  const got = await (await ask("/get")).text();
  const echoed = await (await ask("/echo", { method: "POST", body: "x".repeat(300_000) })).text();
  const events = (await ask("/events")).body!.getReader();
  const { value } = await events.read();
  await events.cancel();
  await Deno.stdout.write(new TextEncoder().encode(`${got} ${echoed.length} ${new TextDecoder().decode(value)}`));
  proxy.close();
}
