import { assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { html, serveSites } from "../command/sites/_sites.ts";
import { testProperty, textOf } from "./_property.ts";

const SITES = ["a.example", "b.example"];

/** A value that is in nothing but its own site. */
function secretOf(site: string): string {
  return `value-of-${site}`;
}

const files = Object.fromEntries(
  SITES.flatMap((site) => [
    [
      `sites/${site}/app.env`,
      `REP_PUBLIC_A=${secretOf(site)}\nREP_SENSITIVE_B=x\nREP_SERVER_C=y\n`,
    ],
    [`sites/${site}/dist/index.html`, html("app")],
    [`sites/${site}/dist/${site}.txt`, secretOf(site)],
  ]),
);

const host = fc.oneof(
  fc.constantFrom(...SITES, "c.example", "127.0.0.1"),
  textOf([...SITES, ".", ":80", "[", "%61", "@", "/", "\\", "#", "?"], 4),
);
const path = textOf(
  [
    ...["/", "/rep/health", "/rep/changes?poll", "/rep/session-key?kid=", ".."],
    ...["/sites/", "/app.env", "?site=", "&last_event_id=", "%2e%2e", "%2f"],
    ...SITES,
    ...SITES.map((site) => `${site}.txt`),
  ],
  6,
);
const request = fc.record({
  host,
  path,
  cursor: textOf(["1", "17958280", "000", "-"], 6),
  cookie: textOf([...SITES, "=", ";", "session"], 4),
  forwarded: host,
  kid: fc.boolean(),
});

let serving: ReturnType<typeof serveSites> | undefined;
const kids = new Map<string, string>();

/** Serves the sites for all cases. The process ends them. */
async function served() {
  serving ??= serveSites({ files });
  const sites = await serving;
  if (kids.size > 0) return sites;
  for (const site of SITES) {
    const page = await (await sites.ask(site)).text();
    kids.set(site, /kid=([\d\w-]+)/.exec(page)?.[1] ?? "");
  }
  return sites;
}

testProperty(
  "no request for one site gets a value of the other",
  request,
  async ({ host, path, cursor, cookie, forwarded, kid }) => {
    const sites = await served();
    const url = URL.parse(`http://${host}${path}`);
    if (url === null) return;
    const own = url.hostname.replace(/\.$/, "");
    const headers = new Headers();
    const values = {
      "last-event-id": cursor,
      "cookie": cookie,
      "x-forwarded-host": forwarded,
    };
    for (const [name, value] of Object.entries(values)) {
      try {
        headers.set(name, value);
      } catch {
        continue; // nobody can send it
      }
    }
    const other = SITES.find((site) => site !== own) ?? "";
    if (kid) url.searchParams.set("kid", kids.get(other) ?? "");
    const text = await textAt(sites, url, headers);
    for (const site of SITES) {
      const isOwn = site === own;
      assertEquals([isOwn, text.includes(secretOf(site)) && !isOwn], [
        isOwn,
        false,
      ]);
    }
    const isKeyOfOther = SITES.includes(own) && kid && /"key":"/.test(text) &&
      url.pathname === "/rep/session-key";
    assertEquals(isKeyOfOther, false);
  },
);

/** Returns the body of a response; of a stream, what it begins with. */
async function textAt(
  sites: Awaited<ReturnType<typeof serveSites>>,
  url: URL,
  headers: Headers,
): Promise<string> {
  const isStream = url.pathname === "/rep/changes";
  if (isStream) url.searchParams.set("poll", "");
  const request = new Request(url, { headers });
  const response = await sites.sites.fetch(request, {
    remoteAddr: { transport: "tcp", hostname: "192.0.2.1" },
  });
  return await response.text();
}
