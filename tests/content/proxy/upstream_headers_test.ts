import { assertEquals } from "@std/assert";
import { upstreamHeaders } from "../../../src/content/proxy/upstream_headers.ts";
import type { Client } from "../../../src/http/client_address.ts";

const CLIENT = {
  address: "192.0.2.7",
  clientKey: "192.0.2.7",
  origin: "https://app.example:8443",
};

function headersFor(
  request: Headers,
  client: Client,
  options: { preserveHost?: boolean; basePath?: string } = {},
): Headers {
  return upstreamHeaders(request, client, {
    preserveHost: false,
    basePath: "",
    ...options,
  });
}

Deno.test("upstreamHeaders() replaces all headers that describe the client", () => {
  const headers = new Headers({
    "forwarded": "for=evil",
    "x-forwarded-for": "evil",
    "x-forwarded-host": "evil",
    "x-forwarded-port": "1",
    "x-forwarded-proto": "evil",
    "X_Forwarded_For": "evil",
    "x-real-ip": "evil",
    "x_real_ip": "evil",
    "x-forward": "kept",
  });
  assertEquals([...headersFor(headers, CLIENT)], [
    ["x-forward", "kept"],
    ["x-forwarded-for", "192.0.2.7"],
    ["x-forwarded-host", "app.example:8443"],
    ["x-forwarded-proto", "https"],
  ]);
});

Deno.test("upstreamHeaders() keeps the gateway's own headers even if Connection lists them", () => {
  const headers = new Headers({
    connection: "x-forwarded-for, cookie",
    cookie: "a=1",
  });
  assertEquals([...headersFor(headers, CLIENT).keys()], [
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
  ]);
});

Deno.test("upstreamHeaders() omits an address or an origin that is invalid", () => {
  assertEquals([
    ...headersFor(new Headers(), {
      ...CLIENT,
      address: "unix",
      origin: "null",
    }),
  ], []);
});

Deno.test("upstreamHeaders() removes Host and Expect, and adds nothing", () => {
  const headers = new Headers({
    host: "evil",
    expect: "100-continue",
    accept: "*/*",
    cookie: "a=1",
  });
  assertEquals([
    ...headersFor(headers, { ...CLIENT, address: "unix", origin: "null" }),
  ], [
    ["accept", "*/*"],
    ["cookie", "a=1"],
  ]);
});

Deno.test("upstreamHeaders() sends the host that was checked, even if Connection lists Host, or else none", () => {
  const headers = new Headers({ host: "internal.example", connection: "host" });
  assertEquals(headersFor(headers, CLIENT).get("host"), null);
  assertEquals(
    headersFor(headers, CLIENT, { preserveHost: true }).get("host"),
    "app.example:8443",
  );
  const onSocket = { ...CLIENT, origin: "http+unix://localhost" };
  assertEquals(
    headersFor(headers, onSocket, { preserveHost: true }).get("host"),
    "internal.example",
  );
});

Deno.test("upstreamHeaders() names the base path in X-Forwarded-Prefix", () => {
  const headers = new Headers({ "x-forwarded-prefix": "/forged" });
  assertEquals(headersFor(headers, CLIENT).get("x-forwarded-prefix"), null);
  assertEquals(
    headersFor(headers, CLIENT, { basePath: "/app" }).get("x-forwarded-prefix"),
    "/app",
  );
});
