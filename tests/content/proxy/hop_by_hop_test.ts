import { assertEquals } from "@std/assert";
import {
  endToEndHeaders,
  withoutHopByHop,
} from "../../../src/content/proxy/hop_by_hop.ts";

/** Filters headers, and the same headers of a message of `node:http`. */
function filtered(headers: Record<string, string>): [string, string][] {
  const fromMessage = [
    ...endToEndHeaders({ rawHeaders: Object.entries(headers).flat() }),
  ];
  const copied = [...withoutHopByHop(new Headers(headers))];
  assertEquals(fromMessage, copied);
  return copied;
}

Deno.test("withoutHopByHop() removes hop-by-hop headers, and no others", () => {
  assertEquals(
    filtered({
      "Connection": "keep-alive",
      "Keep-Alive": "timeout=5",
      "Proxy-Authenticate": "Basic",
      "Proxy-Authentication-Info": "x",
      "Proxy-Authorization": "Basic eDp5",
      "Proxy-Connection": "close",
      "TE": "trailers",
      "Trailer": "x-sum",
      "Transfer-Encoding": "chunked",
      "Upgrade": "h2c",
      "Authorization": "Basic eDp5",
      "X-Other": "1",
    }),
    [["authorization", "Basic eDp5"], ["x-other", "1"]],
  );
});

Deno.test("withoutHopByHop() removes headers that Connection lists, in any case and between invalid names", () => {
  assertEquals(
    filtered({
      "connection": "Close, X-One,, a b, é ,x-TWO",
      "x-one": "1",
      "x-two": "2",
      "x-three": "3",
    }),
    [
      ["x-three", "3"],
    ],
  );
});

Deno.test("withoutHopByHop() keeps Content-Length only without Transfer-Encoding", () => {
  assertEquals(filtered({ "content-length": "3" }), [["content-length", "3"]]);
  assertEquals(
    filtered({ "content-length": "3", "transfer-encoding": "chunked" }),
    [],
  );
});

Deno.test("withoutHopByHop() keeps each Set-Cookie, and does not change its argument", () => {
  const headers = new Headers([["set-cookie", "a=1"], ["set-cookie", "b=2"], [
    "connection",
    "close",
  ]]);
  assertEquals([...withoutHopByHop(headers)], [["set-cookie", "a=1"], [
    "set-cookie",
    "b=2",
  ]]);
  assertEquals(headers.get("connection"), "close");
});

Deno.test("endToEndHeaders() keeps each Set-Cookie, and removes what any of several Connection headers lists", () => {
  const cookies = ["Set-Cookie", "a=1", "set-cookie", "b=2"];
  const others = [
    "X-One",
    "1",
    "Connection",
    "x-one",
    "connection",
    "X-Two",
    "x-two",
    "2",
    "X-Two",
    "3",
  ];
  assertEquals([...endToEndHeaders({ rawHeaders: [...cookies, ...others] })], [
    ["set-cookie", "a=1"],
    ["set-cookie", "b=2"],
  ]);
});

Deno.test("endToEndHeaders() makes a transfer coding other than chunked the content coding that was applied last", () => {
  const rawHeaders = [
    "Content-Encoding",
    "br",
    "Content-Length",
    "3",
    "Transfer-Encoding",
    "GZip, Chunked",
  ];
  assertEquals([...endToEndHeaders({ rawHeaders })], [[
    "content-encoding",
    "br, GZip",
  ]]);
});
