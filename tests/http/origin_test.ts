import { assertEquals } from "@std/assert";
import { corsHeaders, type OriginContext, originRejection } from "../../src/http/origin.ts";
import { LISTED, ORIGIN_CASES, OWN } from "../_origin_table.ts";

function context(fields: Partial<OriginContext>): OriginContext {
  return { origin: null, secFetchSite: null, own: OWN, allowed: [], ...fields };
}

Deno.test("originRejection() and corsHeaders() agree with the table of all combinations", () => {
  for (const { rule, allowed, origin = null, site = null, may } of ORIGIN_CASES) {
    const request = context({ origin, secFetchSite: site, allowed });
    const cors = may && origin !== null ? [["access-control-allow-origin", origin]] : [];
    assertEquals(
      { rule, origin, site, may: originRejection(request) === undefined, headers: [...corsHeaders(request)] },
      { rule, origin, site, may, headers: [...cors, ["vary", "Origin"]] as [string, string][] },
    );
  }
});

Deno.test("originRejection() returns the reason", () => {
  const reasons = [
    { origin: "https://evil.example" },
    { secFetchSite: "cross-site" },
    { secFetchSite: "same-site" },
    { origin: "https://evil.example", allowed: [LISTED] },
    { allowed: [LISTED] },
    { secFetchSite: "same-origin", allowed: [LISTED] },
  ].map((fields) => originRejection(context(fields)));
  assertEquals(reasons, [
    "the origin is not the gateway's own, and no other origin is allowed",
    "the request is cross-site, not same-origin",
    "the request is same-site, not same-origin",
    "the origin is not an allowed origin",
    "the Origin header is missing",
    `the gateway's own origin, ${OWN}, is not an allowed origin`,
  ]);
});

Deno.test("originRejection() accepts the origin of a web view only if it is allowed", () => {
  const allowed = ["capacitor://localhost"];
  assertEquals(originRejection(context({ origin: "capacitor://localhost", allowed })), undefined);
  assertEquals(originRejection(context({ origin: "capacitor://localhost" })) === undefined, false);
});
