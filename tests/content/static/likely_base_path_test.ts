import { assertEquals } from "@std/assert";
import { likelyBasePath } from "../../../src/content/static/likely_base_path.ts";

const FILES = ["index.html", "assets/a.js", "client.js"];

function likely(html: string) {
  return likelyBasePath(html, (path) => Promise.resolve(FILES.includes(path)));
}

const CASES: readonly (readonly [html: string, base: string | undefined])[] = [
  ['<script type="module" src="/app/assets/a.js"></script>', "/app"],
  ["<script src='/one/two/assets/a.js?v=1'></script>", "/one/two"],
  ["<script src=/app/assets/a%2Ejs></script>", undefined],
  // The file is where the page expects it.
  ['<script src="/assets/a.js"></script>', ""],
  ["<script src=/assets/a.js></script><script src=/app/client.js>", ""],
  // It is nowhere, or not in the build.
  ['<script src="/app/assets/b.js"></script>', undefined],
  ['<script src="//cdn.example/assets/a.js"></script>', undefined],
  ['<script src="https://cdn.example/assets/a.js"></script>', undefined],
  ['<script src="/rep/client.js"></script>', undefined],
  ['<script src="./assets/a.js"></script>', undefined],
  ['<script src="/../assets/a.js"></script>', undefined],
  // It is no script.
  ['<link rel="canonical" href="/app/index.html">', undefined],
  ["", undefined],
];

for (const [html, base] of CASES) {
  Deno.test(`likelyBasePath() returns ${base} for ${html}`, async () => {
    assertEquals(await likely(html), base);
  });
}
