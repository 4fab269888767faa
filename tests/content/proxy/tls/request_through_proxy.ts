import { createProxy, respond } from "../_servers.ts";

/** Sends requests to an upstream through the proxy, and prints the responses: for a test of what a process trusts. */
if (import.meta.main) {
  const proxy = createProxy(new URL(Deno.args[0]!));
  const client = {
    address: "192.0.2.7",
    clientKey: "192.0.2.7",
    origin: "https://app.example",
  };
  const url = { origin: "https://app.example", search: "" };
  const request = async (path: string, init?: RequestInit) => {
    await new Promise(setImmediate); // a connection becomes idle one turn after its last byte
    return await respond(proxy, new Request(`http://host${path}`, init), {
      client,
      url: { ...url, path },
    });
  };
  await (await request("/first")).text();
  const got = await (await request("/get")).text();
  const echoed = await (await request("/echo", {
    method: "POST",
    body: "x".repeat(300_000),
  })).text();
  const events = (await request("/events")).body!.getReader();
  const { value } = await events.read();
  await events.cancel();
  await Deno.stdout.write(
    new TextEncoder().encode(
      `${got} ${echoed.length} ${new TextDecoder().decode(value)}`,
    ),
  );
  proxy.close();
}
