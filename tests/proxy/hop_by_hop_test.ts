import { assertEquals } from "@std/assert";
import { withoutHopByHop } from "../../src/proxy/hop_by_hop.ts";

function kept(headers: HeadersInit): [string, string][] {
  return [...withoutHopByHop(new Headers(headers))];
}

Deno.test("withoutHopByHop() takes out what belongs to one connection, and nothing else", () => {
  assertEquals(
    kept({
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

Deno.test("withoutHopByHop() takes out what Connection nominates, in any case and with nonsense between", () => {
  assertEquals(kept({ "connection": "Close, X-One,, a b, é ,x-TWO", "x-one": "1", "x-two": "2", "x-three": "3" }), [
    ["x-three", "3"],
  ]);
});

Deno.test("withoutHopByHop() believes a length only where there is no transfer coding", () => {
  assertEquals(kept({ "content-length": "3" }), [["content-length", "3"]]);
  assertEquals(kept({ "content-length": "3", "transfer-encoding": "chunked" }), []);
});

Deno.test("withoutHopByHop() keeps cookies apart, and leaves the original alone", () => {
  const headers = new Headers([["set-cookie", "a=1"], ["set-cookie", "b=2"], ["connection", "close"]]);
  assertEquals([...withoutHopByHop(headers)], [["set-cookie", "a=1"], ["set-cookie", "b=2"]]);
  assertEquals(headers.get("connection"), "close");
});
