import { assertEquals } from "@std/assert";
import {
  isOnlyForDocuments,
  isRoute,
  parseFilePath,
} from "../../../src/content/static/file_path.ts";

const ALLOWED = [
  ["", { names: [], isDirectory: true }],
  ["/", { names: [], isDirectory: true }],
  ["/app.js", { names: ["app.js"], isDirectory: false }],
  ["/a/b/c.js", { names: ["a", "b", "c.js"], isDirectory: false }],
  ["/docs/", { names: ["docs"], isDirectory: true }],
  ["/a%20b/%C3%BC.txt", { names: ["a b", "ü.txt"], isDirectory: false }],
  ["/100%25.txt", { names: ["100%.txt"], isDirectory: false }],
  ["/a%2Bb%3Fc%23d", { names: ["a+b?c#d"], isDirectory: false }],
  ["/a..b/c.", { names: ["a..b", "c."], isDirectory: false }],
  ["/.well-known/security.txt", {
    names: [".well-known", "security.txt"],
    isDirectory: false,
  }],
] as const;

for (const [pathname, path] of ALLOWED) {
  Deno.test(`parseFilePath() parses "${pathname.slice(0, 40)}"`, () => {
    const { problem, ...parsed } = parseFilePath(pathname)!;
    assertEquals(parsed, { ...path, mayBeFile: true });
    assertEquals(problem.status, 404);
  });
}

/** Paths that nothing is served for, with spaces between them. */
const HIDDEN = {
  "path traversal":
    "/.. /../ /../etc/passwd /a/../../b .. ../a /a/.. /. /./a /...",
  "encoded path traversal":
    "/%2e%2e/a /%2E%2e/a /.%2e/a /a/%2e%2e%2fb /..%2fa /..%5ca /%2e /a%2f..%2fb /a%5c.b /a\\..\\b /..\\..\\a",
  "double encoding": "/%252e%252e/a /%252e /a%252f%252eb /%25%32%65",
  "names that begin with a dot":
    "/.env /.git/config /a/.git/HEAD /%2egit/config /.htaccess /a/.DS_Store",
  "names that only begin with .well-known":
    "/.well-known.bak /.well-knownx/a /.WELL-KNOWN/a",
  "the same in what cannot be decoded": "/.env%zz /%2egit/% /a/.b/%ff",
};

for (const [kind, pathnames] of Object.entries(HIDDEN)) {
  Deno.test(`parseFilePath() returns undefined for ${kind}`, () => {
    for (const pathname of pathnames.split(" ")) {
      assertEquals(parseFilePath(pathname), undefined, pathname);
    }
  });
}

/** Paths that no file can have, but a route may, with spaces between them. */
const NO_FILES = {
  "encoded separators":
    "/a%2fb /a%2Fb /a%5cb /%2fetc/passwd /%5c%5chost%5cshare",
  "backslashes": "/a\\b \\a /a\\",
  "double encoding": "/a%252fb /a%255cb /a%2500 /a%25252fb /a%252eb",
  "NUL and other control characters":
    "/a%00.js /%00 /a\0b /a%0d%0ab /a%7f /a%C2%85",
  "empty names": "// //a //evil.example/ /a//b /a// ///",
};

for (const [kind, pathnames] of Object.entries(NO_FILES)) {
  Deno.test(`parseFilePath() finds no file for ${kind}`, () => {
    for (const pathname of pathnames.split(" ")) {
      const { mayBeFile, problem } = parseFilePath(pathname)!;
      assertEquals([mayBeFile, problem.status], [false, 404], pathname);
    }
  });
}

const UNDECODABLE =
  "/% /%zz /a%2 /%u002e /%c0%ae%c0%ae/a /%ff /%ed%a0%80 /%e2%82";

for (const pathname of UNDECODABLE.split(" ")) {
  Deno.test(`parseFilePath() names the problem of ${pathname}`, () => {
    const { mayBeFile, problem } = parseFilePath(pathname)!;
    assertEquals([mayBeFile, problem.status], [false, 400]);
  });
}

const HTML = "text/html,application/xhtml+xml";

const ROUTES = [
  ["/", true],
  ["/users", true],
  ["/users/42/", true],
  ["/v1.2/users", true],
  ["/app.js", false],
  ["/app.js/", false],
  ["/users/john.doe", false],
  ["/users/john.doe", true, HTML],
  ["/users//42", false],
  ["/users//42", true, HTML],
  ["/.well-known/a.b", false, HTML],
  ["/.well-known/a", false, HTML],
  ["/a/.well-known/b.c", false, HTML],
  ["/a/.well-known/b", true],
  ["/robots.txt", false, "text/plain,text/html,*/*"], // of a crawler
  ["/livez/a.b", true, HTML],
  ["/.well-known", false],
  ["/.well-known/change-password", false],
  ["/users", true, "*/*"],
  ["/docs/metrics", true, "*/*"],
  ["/metrics/cpu", true],
  ["/metricsx", true],
  ...["/livez", "/readyz", "/metrics"].flatMap((path) =>
    [
      [path, false],
      [path, false, "*/*"],
      [`${path}/`, false, "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"],
      [path, true, HTML],
    ] as [string, boolean, string?][]
  ),
] as const;

for (const [pathname, expected, accept] of ROUTES) {
  Deno.test(`isRoute() returns ${expected} for ${pathname} and Accept: ${accept ?? "(none)"}`, () => {
    const path = parseFilePath(pathname);
    const headers = new Headers(accept === undefined ? {} : { accept });
    assertEquals(path && isRoute(path, headers), expected);
  });
}

Deno.test("isOnlyForDocuments() returns whether a path looks like a file's, or like a mistake", () => {
  const paths = ["/a.b", "/a.b/", "/a/b.c", "/a//b", "/a%2fb", "/%"];
  for (const path of paths) {
    assertEquals(isOnlyForDocuments(parseFilePath(path)!), true, path);
  }
  for (const path of ["/", "/a", "/a.b/c", "/a%20b/"]) {
    assertEquals(isOnlyForDocuments(parseFilePath(path)!), false, path);
  }
});
