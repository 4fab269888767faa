import { assertEquals } from "@std/assert";
import {
  corsHeaders,
  normalizeOrigin,
  type OriginContext,
  originRejection,
  preflight,
} from "../../../src/core/http/origin.ts";
import { LISTED, OWN } from "../../_origin_table.ts";

function context(fields: Partial<OriginContext>) {
  return { origin: null, secFetchSite: null, own: OWN, allowed: [], ...fields };
}

Deno.test("corsHeaders() permits credentials only for an origin that is listed", () => {
  const vary = "Origin";
  const permitted = { vary, "access-control-allow-origin": LISTED };
  const credentials = { "access-control-allow-credentials": "true" };
  const cases: [Partial<OriginContext>, Record<string, string>][] = [
    [{ origin: LISTED, allowed: [LISTED] }, { ...permitted, ...credentials }],
    [{ origin: LISTED, own: LISTED }, permitted],
    [{ origin: LISTED, own: LISTED, allowed: [OWN] }, { vary }],
    [{ origin: LISTED, allowed: [`${LISTED}.`] }, { vary }],
    [{ origin: `${LISTED}.`, allowed: [LISTED] }, { vary }],
    [{ origin: "null", allowed: [LISTED] }, { vary }],
    [{ origin: LISTED }, { vary }],
    [{ secFetchSite: "same-origin", allowed: [OWN] }, { vary }],
  ];
  for (const [fields, headers] of cases) {
    assertEquals(corsHeaders(context(fields)), headers);
  }
});

Deno.test("preflight() returns the headers that an allowed origin asks for, and no others", () => {
  const token = "a!#$%&'*+.^_`|~-9";
  const long = Array(150).fill("x-header-names").join(",");
  const cases: [asked: string | undefined, isAllowed: boolean][] = [
    ["traceparent,tracestate,baggage", true],
    ["traceparent, X-Custom ,b3", true],
    [token, true],
    [undefined, false],
    ["", false],
    [",", false],
    ["a,,b", false],
    ["a b", false],
    ["a:b", false],
    ['"a"', false],
    ["a;b", false],
    ["é", false],
    [long, false],
  ];
  for (const origin of [LISTED, "https://evil.example"]) {
    for (const [asked, isValid] of cases) {
      const headers = new Headers();
      if (asked !== undefined) {
        headers.set("access-control-request-headers", asked);
      }
      const request = new Request(OWN, { headers });
      const fields = { origin, allowed: [LISTED] };
      const response = preflight(request, context(fields), "POST");
      const isAllowed = origin === LISTED;
      assertEquals(
        [
          response.status,
          response.headers.get("vary"),
          response.headers.get("access-control-allow-headers"),
          response.headers.get("access-control-allow-methods"),
          response.headers.get("access-control-allow-origin"),
        ],
        [
          204,
          "Origin, Access-Control-Request-Headers",
          isAllowed && isValid ? asked : null,
          isAllowed ? "POST" : null,
          isAllowed ? LISTED : null,
        ],
      );
    }
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
