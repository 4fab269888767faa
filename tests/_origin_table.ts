/** The origin that all these requests are sent to. */
export const OWN = "https://app.example.com";
/** The origin that every non-empty list contains. */
export const LISTED = "https://other.example.com:8443";

/** Values of the `Origin` header; `undefined` means no header. */
const ORIGINS = {
  "none": undefined,
  "own": OWN,
  "listed": LISTED,
  "unlisted": "https://evil.example",
  "null": "null",
  "empty": "",
  "*": "*",
  "own, other case": "https://APP.example.com",
  "own, other scheme": "http://app.example.com",
  "own, explicit port": "https://app.example.com:443",
  "own, slash": `${OWN}/`,
  "listed, other case": "https://Other.example.com:8443",
  "listed, other scheme": "http://other.example.com:8443",
  "listed, other port": "https://other.example.com:8444",
  "listed, no port": "https://other.example.com",
  "listed, slash": `${LISTED}/`,
  "listed, longer": `${LISTED}.evil.example`,
  "listed, subdomain": "https://a.other.example.com:8443",
  "two": `${OWN}, ${LISTED}`,
  "twice the same": `${LISTED}, ${LISTED}`,
} as const;

type OriginName = keyof typeof ORIGINS;

/** Values of the `Sec-Fetch-Site` header, in the order of the columns below. */
const SITES = [
  undefined,
  "same-origin",
  "same-site",
  "cross-site",
  "none",
] as const;

/**
 * Allowed origins, and for which `Origin` and `Sec-Fetch-Site` a key is then issued; all other requests are rejected.
 */
const RULES: readonly {
  name: string;
  allowed: readonly string[];
  may: Partial<Record<OriginName, string>>;
}[] = [
  {
    name: "no origin is configured",
    allowed: [],
    //    absent same-origin same-site cross-site none
    may: {
      "none": "yes yes no no yes",
      "own": "yes yes yes yes yes",
    },
  },
  {
    name: "origins are configured, including the own one",
    allowed: [LISTED, OWN],
    may: {
      "none": "no yes no no no",
      "own": "yes yes yes yes yes",
      "listed": "yes yes yes yes yes",
    },
  },
  {
    name: "origins are configured, without the own one",
    allowed: [LISTED],
    may: {
      "none": "no no no no no",
      "listed": "yes yes yes yes yes",
    },
  },
];

/** One combination of configuration and headers, and whether a key is issued. */
export interface OriginCase {
  readonly rule: string;
  readonly allowed: readonly string[];
  readonly origin: string | undefined;
  readonly site: string | undefined;
  readonly may: boolean;
}

/** Every combination. */
export const ORIGIN_CASES: readonly OriginCase[] = RULES.flatMap((
  { name, allowed, may },
) =>
  Object.entries(ORIGINS).flatMap(([originName, origin]) => {
    const row = (may[originName as OriginName] ?? "no no no no no").split(" ");
    return SITES.map((site, column) => ({
      rule: name,
      allowed,
      origin,
      site,
      may: row[column] === "yes",
    }));
  })
);

/** Returns the request headers of a case. */
export function headersOf({ origin, site }: OriginCase): Headers {
  const headers = new Headers();
  if (origin !== undefined) headers.set("origin", origin);
  if (site !== undefined) headers.set("sec-fetch-site", site);
  return headers;
}
