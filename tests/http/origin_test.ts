import { assertEquals } from "@std/assert";
import { corsHeaders, type OriginContext, originRefusal } from "../../src/http/origin.ts";
import { LISTED, ORIGIN_CASES, OWN } from "../_origin_table.ts";

function question(given: Partial<OriginContext>): OriginContext {
  return { origin: null, secFetchSite: null, own: OWN, allowed: [], ...given };
}

Deno.test("originRefusal() and corsHeaders() agree with the table of all combinations", () => {
  for (const { rule, allowed, origin = null, site = null, may } of ORIGIN_CASES) {
    const asked = question({ origin, secFetchSite: site, allowed });
    const cors = may && origin !== null ? [["access-control-allow-origin", origin]] : [];
    assertEquals(
      { rule, origin, site, may: originRefusal(asked) === undefined, headers: [...corsHeaders(asked)] },
      { rule, origin, site, may, headers: [...cors, ["vary", "Origin"]] as [string, string][] },
    );
  }
});

Deno.test("originRefusal() says why", () => {
  const reasons = [
    { origin: "https://evil.example" },
    { secFetchSite: "cross-site" },
    { secFetchSite: "same-site" },
    { origin: "https://evil.example", allowed: [LISTED] },
    { allowed: [LISTED] },
    { secFetchSite: "same-origin", allowed: [LISTED] },
  ].map((given) => originRefusal(question(given)));
  assertEquals(reasons, [
    "the origin is not the gateway's own, and no other is allowed",
    "a cross-site request is not a same-origin one",
    "a same-site request is not a same-origin one",
    "the origin is not one of the allowed origins",
    "there is no Origin header",
    `the request's own origin, ${OWN}, is not one of the allowed origins`,
  ]);
});

Deno.test("originRefusal() lets an origin in that only an app's web view has, when it is listed", () => {
  const allowed = ["capacitor://localhost"];
  assertEquals(originRefusal(question({ origin: "capacitor://localhost", allowed })), undefined);
  assertEquals(originRefusal(question({ origin: "capacitor://localhost" })) === undefined, false);
});
