import { assertEquals } from "@std/assert";
import { type RequestUrl, RequestUrls } from "../../src/http/request_urls.ts";

/** What `URL` returns. */
function expected(text: string) {
  const url = URL.parse(text);
  return url === null ? undefined : {
    origin: `${url.protocol}//${url.host}`,
    path: url.pathname,
    search: url.search.replace(/^\?$/, ""),
  };
}

function partsOf({ origin, path, search }: RequestUrl) {
  return { origin, path, search: new URL(`http://a/${search}`).search }; // without what it keeps as it was sent
}

const BASES = [
  ...[
    "http://a",
    "https://a",
    "http://a:80",
    "http://a:8080",
    "https://a:443",
    "http://A.Example",
    "http://127.1",
  ],
  ...[
    "http://1.2.3.4",
    "http://1.2.3.4.5",
    "http://999.1.1.1",
    "http://[::1]:80",
    "http://[::1",
    "http://a:99999",
  ],
  ...[
    "http://",
    "http:///x",
    "http://a b",
    "http://a<>",
    "http://a?b",
    "http://a#b",
    "http://a@b",
    "http://a\\b",
  ],
  ...[
    "http://a/b",
    "http://%41",
    "http://%zz",
    "http://b\u00fccher.example",
    "http://a:x",
    "http+unix://%2Ftmp%2Fs",
  ],
  ...["", "*", "a:80", "file://", "//a", "HTTP://a"],
];
const PATHS = [
  ...[
    "",
    "/",
    "//",
    "/rep/health",
    "//rep/health",
    "/rep/health/",
    "/rep//health",
    "/a/../rep/health",
    "/a/./b",
  ],
  ...[
    "/a/%2e%2e/b",
    "/a/%2E/b",
    "/a/.%2e/b",
    "/.a",
    "/a.b/c.d",
    "/..a",
    "/a..",
    "/a/..",
    "/a/.",
    "\\rep\\health",
  ],
  ...[
    "/rep\\health",
    "/%20",
    "/a b",
    "/\u00e9",
    "/\u{1f600}",
    "/a\tb",
    "/<>",
    '/"',
    "/{}",
    "/^",
    "/|",
    "/`",
    "/'",
  ],
  ...[
    "/a;b",
    "/!$&'()*+,;=:@",
    "/%",
    "/%zz",
    "/%00",
    "/\0",
    "/rep/health:80",
    "/http://b/",
    "/@b/",
    "/a%2fb",
  ],
];
const SUFFIXES = [
  "",
  "?",
  "?a=b",
  "?a=b#c",
  "#c",
  "?a=/../b",
  "?a?b",
  "?%zz",
  "#?a",
];

Deno.test("read() returns the parts that the URL standard defines, whatever it has read before", () => {
  const urls = new RequestUrls();
  let valid = 0;
  for (const path of PATHS) {
    for (const base of BASES) { // each URL after one with another base
      for (const suffix of SUFFIXES) {
        const url = base + path + suffix;
        const read = urls.read(url);
        assertEquals(read && partsOf(read), expected(url), url);
        if (read !== undefined) valid++;
      }
    }
  }
  assertEquals(valid > 5_000, true);
});

Deno.test("read() returns the query as it was sent, encoded only if a request line could not contain it", () => {
  const urls = new RequestUrls();
  const sent = [
    "",
    "?",
    "?a=%2f%zz&b='\"<>|[]{}`^\\",
    "??x=http://evil/",
    "?\u00e9 ",
    "?\u0000b",
    "?a\tb#?c",
    "?a#b?c",
  ];
  const expected = [...sent.slice(0, 4), "?%C3%A9", "?%00b", "?ab", "?a"];
  for (const path of ["/a", "/\u00e9"]) { // with a plain path and with one that has to be parsed
    assertEquals(
      sent.map((query) => urls.read(`http://host${path}${query}`)?.search),
      expected,
    );
  }
});

Deno.test("read() returns the origin of each URL, not that of the one before", () => {
  const urls = new RequestUrls();
  const origins = [
    "http://a/x",
    "http://b/x",
    "http://a:99999/x",
    "http://b/y",
    "http://a/y",
  ].map((url) => {
    return urls.read(url)?.origin;
  });
  assertEquals(origins, [
    "http://a",
    "http://b",
    undefined,
    "http://b",
    "http://a",
  ]);
});
