import { assertEquals } from "@std/assert";
import {
  normalizeOrigin,
  type OriginContext,
  originRejection,
} from "../../../src/core/http/origin.ts";
import { LISTED, OWN } from "../../_origin_table.ts";

function context(fields: Partial<OriginContext>) {
  return { origin: null, secFetchSite: null, own: OWN, allowed: [], ...fields };
}

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
    `the origin is not the gateway's own, ${OWN}, and no other origin is allowed`,
    "the request is cross-site, not same-origin",
    "the request is same-site, not same-origin",
    "the origin is not an allowed origin",
    "the Origin header is missing",
    `the gateway's own origin, ${OWN}, is not an allowed origin`,
  ]);
});

Deno.test("originRejection() accepts the origin of a web view only if it is allowed", () => {
  const allowed = ["capacitor://localhost"];
  assertEquals(
    originRejection(context({ origin: "capacitor://localhost", allowed })),
    undefined,
  );
  assertEquals(
    originRejection(context({ origin: "capacitor://localhost" })) === undefined,
    false,
  );
});

const NORMALIZED: Record<string, string | undefined> = {
  "https://a.example": "https://a.example",
  "https://a.example/": "https://a.example",
  "HTTPS://A.Example:443/": "https://a.example",
  "http://a.example:80": "http://a.example",
  "http://a.example:443": "http://a.example:443",
  "http://[::1]:8080/": "http://[::1]:8080",
  "Capacitor://Localhost/": "capacitor://localhost",
  "https://*.example.com": undefined,
  "*": undefined,
  "null": undefined,
  "https://a.example/path": undefined,
  "https://a.example//": undefined,
  "https:\\\\a.example": undefined,
  "capacitor://": undefined,
  "https://a.example/?": undefined,
  "https://a.example#": undefined,
  "https://user@a.example": undefined,
  "mailto:a@b.example": undefined,
};

for (const [text, origin] of Object.entries(NORMALIZED)) {
  Deno.test(`normalizeOrigin() returns ${origin} for ${text}`, () =>
    assertEquals(normalizeOrigin(text), origin));
}
