import { assertEquals, assertThrows } from "@std/assert";
import {
  mayBeRoute,
  parseFilePath,
} from "../../../src/content/static/file_path.ts";
import { Problem } from "../../../src/core/http/problem.ts";

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
    assertEquals(parseFilePath(pathname), path);
  });
}

/** Paths, with spaces between them. */
const REJECTED = {
  "path traversal":
    "/.. /../ /../etc/passwd /a/../../b .. ../a /a/.. /. /./a /...",
  "encoded path traversal":
    "/%2e%2e/a /%2E%2e/a /.%2e/a /a/%2e%2e%2fb /..%2fa /..%5ca /%2e",
  "encoded separators":
    "/a%2fb /a%2Fb /a%5cb /%2fetc/passwd /%5c%5chost%5cshare",
  "backslashes": "/a\\b /..\\..\\a \\a /a\\",
  "double encoding":
    "/%252e%252e/a /%252e /a%252fb /a%255cb /a%2500 /a%25252fb /%25%32%65",
  "NUL and other control characters":
    "/a%00.js /%00 /a\0b /a%0d%0ab /a%7f /a%C2%85",
  "names that begin with a dot":
    "/.env /.git/config /a/.git/HEAD /%2egit/config /.htaccess /a/.DS_Store",
  "names that only begin with .well-known":
    "/.well-known.bak /.well-knownx/a /.WELL-KNOWN/a",
  "empty names": "// //a //evil.example/ /a//b /a// ///",
};

for (const [kind, pathnames] of Object.entries(REJECTED)) {
  Deno.test(`parseFilePath() returns undefined for ${kind}`, () => {
    for (const pathname of pathnames.split(" ")) {
      assertEquals(parseFilePath(pathname), undefined, pathname);
    }
  });
}

const UNDECODABLE =
  "/% /%zz /a%2 /%u002e /%c0%ae%c0%ae/a /%ff /%ed%a0%80 /%e2%82";

for (const pathname of UNDECODABLE.split(" ")) {
  Deno.test(`parseFilePath() throws a problem for ${pathname}`, () => {
    const problem = assertThrows(() => parseFilePath(pathname), Problem);
    assertEquals(problem.status, 400);
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
  Deno.test(`mayBeRoute() returns ${expected} for ${pathname} and Accept: ${accept ?? "(none)"}`, () => {
    const path = parseFilePath(pathname);
    assertEquals(
      path &&
        mayBeRoute(path, new Headers(accept === undefined ? {} : { accept })),
      expected,
    );
  });
}
