import { assertEquals } from "@std/assert";
import { createGateway } from "../../src/gateway.ts";
import { trustRule } from "../../src/http/client_address.ts";
import { createProxyWarning } from "../../src/http/proxy_warning.ts";
import { type Log, type LogFields, silentLog } from "../../src/observe/log.ts";

function collectWarnings() {
  const warnings: [event: string, fields: LogFields | undefined][] = [];
  const log: Log = {
    ...silentLog,
    warn: (event, fields) => warnings.push([event, fields]),
  };
  return { warnings, log };
}

const FORWARDED = new Request("http://gateway.test/", {
  headers: { "x-forwarded-for": "203.0.113.9" },
});

Deno.test("createProxyWarning() warns once of X-Forwarded-For from a peer that is not a trusted proxy", () => {
  const { warnings, log } = collectWarnings();
  const check = createProxyWarning({
    isTrusted: trustRule(["10.0.0.0/8"]),
    log,
  });
  check(new Request("http://gateway.test/"), "192.0.2.1");
  check(FORWARDED, "10.1.1.1");
  check(FORWARDED, "::ffff:10.1.1.1");
  assertEquals(warnings, []);
  check(FORWARDED, "192.0.2.1");
  check(FORWARDED, "192.0.2.2");
  const detail =
    "X-Forwarded-For is ignored, and all clients of this peer share one rate limit; " +
    "if it is your proxy, add it to the trusted proxies";
  assertEquals(warnings, [["rep.proxy.untrusted", {
    peer: "192.0.2.1",
    detail,
  }]]);
});

Deno.test("a gateway warns once of an untrusted proxy", async () => {
  const { warnings, log } = collectWarnings();
  await using gateway = await createGateway({ variables: {}, log });
  const info = {
    remoteAddr: { transport: "tcp", hostname: "192.0.2.1", port: 1 },
  } as const;
  for (let count = 0; count < 3; count++) {
    await (await gateway.fetch(FORWARDED, info)).body?.cancel();
  }
  assertEquals(
    warnings.filter(([event]) => event === "rep.proxy.untrusted").length,
    1,
  );
});
