import { assertEquals } from "@std/assert";
import { isHashedName } from "../../../src/content/static/hashed_name.ts";

const HASHED = {
  "Vite and Rollup": [
    "index-BxY12_9a.js",
    "index--aB3_x9k.js",
    "index-C1-_a8bQ.js",
    "_plugin-vue_export-helper-DlAUqK2U.js",
    "logo-CyYWdqx1.svg",
    "index-BxY12_9a.js.map",
    "start.BxY12_9a.js",
    "BxY12_9a.js",
  ],
  "webpack": [
    "main.3f2a9c1d.css",
    "main.abc123de.css",
    "main.3f2a9c1d4b5e6f708192.js",
    "787.3f2a9c1d.chunk.js",
    "main.3f2a9c1d.js.LICENSE.txt",
    "3f2a9c1d9b1e0c2a7d55.woff2",
  ],
  "esbuild": ["chunk-5XQJ2K7A.js"],
  "Angular": ["polyfills-B6TNHZQ6.js", "runtime.12ab34cd56ef7890.js"],
  "Parcel": ["index.a1b2c3d4.js"],
};

for (const [bundler, names] of Object.entries(HASHED)) {
  Deno.test(`isHashedName() recognizes the hashes of ${bundler}`, () => {
    assertEquals(names.filter((name) => !isHashedName(name)), []);
  });
}

const NAMED = {
  "words": ["my-component.js", "background-gradient.css", "service-worker.js", "README.md", "LICENSE", "facade.css"],
  "versions": ["jquery-3.7.1.min.js", "app-v1_2_3_4.js", "three.r150.module.js", "vendor-es2020.js"],
  "sizes": ["apple-touch-icon-180x180.png", "icon-1024x1024.png"],
  "dates": ["photo-20240115.jpg", "news-2024feb01.pdf", "tree-2026dec24.png", "log-20240115T103000Z.txt"],
  "words in camel case": [
    "font-OpenSans.woff2",
    "Roboto-BoldItalic.woff2",
    "app-JavaScript.js",
    "NotoSansJP-Regular.otf",
  ],
  "words with numbers": [
    "hero-iPhone15.png",
    "hero-iPhone15Pro.png",
    "demo-Web3Site.js",
    "logo-VERSION2.svg",
    "menu-cafe2024.jpg",
    "IMG_20240101_123456.jpg",
  ],
  "a hash that looks like words": ["index-DiwrgTda.js"],
  "a hash that is too short": ["main.3f2a9c1.js"],
  "a hash as the extension": ["main.3f2a9c1d"],
};

for (const [kind, names] of Object.entries(NAMED)) {
  Deno.test(`isHashedName() returns false for ${kind}`, () => {
    assertEquals(names.filter(isHashedName), []);
  });
}
