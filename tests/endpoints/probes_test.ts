import { assertEquals, assertRejects } from "@std/assert";
import type { Gateway } from "../../src/gateway_interface.ts";
import { setUp } from "../_gateway.ts";

async function probe(
  gateway: Gateway,
  path: string,
  method = "GET",
): Promise<[number, string, string | null]> {
  const response = await gateway.fetchHealth(
    new Request(`http://health.test${path}`, { method }),
  );
  return [
    response.status,
    await response.text(),
    response.headers.get("cache-control"),
  ];
}

Deno.test("GET /livez and GET /readyz are 200 while the gateway serves, also while it is degraded", async () => {
  await using test = await setUp({ REP_PUBLIC_A: "1" });
  const { gateway } = test;
  assertEquals(await probe(gateway, "/livez"), [200, "live\n", "no-store"]);
  assertEquals(await probe(gateway, "/readyz"), [200, "healthy\n", "no-store"]);
  assertEquals(await probe(gateway, "/readyz", "HEAD"), [200, "", "no-store"]);
  await assertRejects(() => test.set({ REP_PUBLIC_A: "1", REP_SERVER_A: "1" }));
  assertEquals(await probe(gateway, "/readyz"), [
    200,
    "degraded\n",
    "no-store",
  ]);
});

Deno.test("GET /readyz is 503 from the start of the shutdown, and GET /livez stays 200", async () => {
  await using test = await setUp({});
  test.gateway.beginShutdown();
  assertEquals(await probe(test.gateway, "/readyz"), [
    503,
    "stopping\n",
    "no-store",
  ]);
  assertEquals(await probe(test.gateway, "/livez"), [
    200,
    "live\n",
    "no-store",
  ]);
});

Deno.test("GET /livez and GET /readyz answer other methods with 405, and are not on the public port", async () => {
  await using test = await setUp({});
  for (const path of ["/livez", "/readyz"]) {
    assertEquals((await probe(test.gateway, path, "POST"))[0], 405);
    assertEquals((await test.ask(path)).status, 404);
  }
});

Deno.test("GET /livez and GET /readyz are plain text", async () => {
  await using test = await setUp({});
  for (const path of ["/livez", "/readyz"]) {
    const response = await test.gateway.fetchHealth(
      new Request(`http://health.test${path}`),
    );
    await response.body?.cancel();
    assertEquals(
      response.headers.get("content-type"),
      "text/plain; charset=utf-8",
    );
  }
});
