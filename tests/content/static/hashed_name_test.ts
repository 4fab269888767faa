import { assertEquals } from "@std/assert";
import { isHashedName } from "../../../src/content/static/hashed_name.ts";
import { seededRandom } from "../../../tools/seeded_random.ts";

const NONE: ReadonlySet<string> = new Set();

const HASHED = {
  "Vite and Rollup": [
    "index-BxY12_9a.js",
    "index--aB3_x9k.js",
    "index-C1-_a8bQ.js",
    "_plugin-vue_export-helper-DlAUqK2U.js",
    "logo-1bWoP6pv.svg",
    "index-BxY12_9a.js.map",
    "start.BxY12_9a.js",
    "BxY12_9a.js",
  ],
  "webpack": [
    "main.3f2a9c1d.css",
    "main.abc123de.css",
    "main.3f2a9c1d4b5e6f708192.js",
    "787.3f2a9c1d.chunk.js",
    "3f2a9c1d9b1e0c2a7d55.woff2",
  ],
  "Next.js": [
    "page-3f2a9c1d4b5e6f70.js",
    "4bd1b696-21f374d1156f834a.js",
    "logo.3f2a9c1d.png",
  ],
  "esbuild": ["chunk-5XQJ2K7A.js", "logo-5XQJ2K7A.png"],
  "Angular": ["polyfills-I2Z7IWCN.js", "runtime.12ab34cd56ef7890.js"],
  "Parcel": ["index.a1b2c3d4.js", "logo.a1b2c3d4.png"],
};

for (const [bundler, names] of Object.entries(HASHED)) {
  Deno.test(`isHashedName() recognizes the hashes of ${bundler}`, () => {
    assertEquals(names.filter((name) => !isHashedName(name, NONE)), []);
  });
}

const BUILD = new Set(["index-BxY12_9a.js", "index-C2su7_N0.css"]);

Deno.test("isHashedName() recognizes scripts and styles by the files beside them", () => {
  const names = [
    "vendor-Cp5nfeDT.js",
    "page-CyYWdqx1.css",
    "worker-u93KkixF.js",
    "main-B6TNHZQ6.js",
  ];
  assertEquals(
    names.map((name) => isHashedName(name, NONE)),
    names.map(() => false),
  );
  assertEquals(
    names.map((name) => isHashedName(name, new Set([...BUILD, name]))),
    names.map(() => true),
  );
  assertEquals(
    names.map((name) => isHashedName(name, new Set(names))),
    names.map(() => false),
  );
});

const NAMED = {
  "words": [
    "my-component.js",
    "background-gradient.css",
    "service-worker.js",
    "README.md",
    "LICENSE",
    "facade.css",
  ],
  "versions": [
    "jquery-3.7.1.min.js",
    "app-v1_2_3_4.js",
    "three.r150.module.js",
    "vendor-es2020.js",
  ],
  "sizes": ["apple-touch-icon-180x180.png", "icon-1024x1024.png"],
  "dates": [
    "photo-20240115.jpg",
    "news-2024feb01.pdf",
    "tree-2026dec24.png",
    "log-20240115T103000Z.txt",
  ],
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
  "products": [
    "logo-iOS17Pro.png",
    "badge-Win11x64.svg",
    "hero-GPT4oMin.webp",
    "setup-WIN32X64.png",
    "camera-MODEL3X2.jpg",
    "icon-ip6t_LOG.svg",
    "b2b-B2BtoB2C.png",
    "map-IPv4IPv6.svg",
    "r-R2D2C3PO.png",
  ],
  "conversions": [
    "H264toAV1.js",
    "MP3toWAV.wasm",
    "tool-MP3toWAV.js",
    "chart-PS5vsXBX.js",
    "codec-X264X265.js",
  ],
  "functions": [
    "ToUint32.js",
    "lib-Poly1305.js",
    "lib-ChaCha20.js",
    "lib-SparkMD5.js",
    "shim-Canvas2D.js",
    "H264X265.js",
  ],
  "IDs": [
    "photo-1a2b3c4d.jpg",
    "user-5f3a9c1d2b.json",
    "user-5f3a9c1d4b5e6f70.json",
    "avatar-5f3a9c1d4b5e6f70.png",
    "3f2a9c1d-9b1e-4c2a-8d55-3f2a9c1d9b1e.png",
    "5f3a9c1d4b5e6f7081923a4b.jpg",
    "3f2a9c1d9b1e4c2a8d553f2a9c1d9b1e.png",
  ],
  "data and documents": [
    "data-Q1toQ4_2024.csv",
    "data-BxY12_9a.json",
    "report.3f2a9c1d.pdf",
    "main.3f2a9c1d.js.LICENSE.txt",
  ],
  "a hash that looks like words": ["index-DiwrgTda.js", "logo-Cp5nfeDT.svg"],
  "a hash that is too short": ["main.3f2a9c1.js"],
  "a hash as the extension": ["main.3f2a9c1d"],
};

for (const [kind, names] of Object.entries(NAMED)) {
  Deno.test(`isHashedName() returns false for ${kind}, also beside files with hashes`, () => {
    assertEquals(
      names.filter((name) => isHashedName(name, new Set(names))),
      [],
    );
    assertEquals(
      names.filter((name) => isHashedName(name, new Set([...BUILD, ...names]))),
      [],
    );
  });
}

/** Names of scripts, styles, fonts and images with digits, of popular packages (cdnjs, Debian) and of repositories. */
const CORPUS =
  (await Deno.readTextFile(new URL("file_names.txt", import.meta.url))).trim()
    .split("\n");

Deno.test("isHashedName() returns false for the names of files in popular packages, also beside files with hashes", () => {
  assertEquals(CORPUS.length > 700, true);
  assertEquals(
    CORPUS.filter((name) => isHashedName(name, new Set(CORPUS))),
    [],
  );
  assertEquals(
    CORPUS.filter((name) => isHashedName(name, new Set([...BUILD, ...CORPUS]))),
    [],
  );
});

const [UPPER, DIGITS, HEX] = [
  "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
  "0123456789",
  "0123456789abcdef",
];
const BASE64URL = `${UPPER}${UPPER.toLowerCase()}${DIGITS}-_`;
const BASE32 = `${UPPER}234567`;

/** The form of names, and the percentage that may be missed of builds with a file of them, and with ten. */
const FORMS: [
  bundler: string,
  form: (hash: Hash) => string,
  ofOne: number,
  ofTen: number,
][] = [
  [
    "Vite and Rollup, scripts",
    (hash) => `index-${hash(BASE64URL, 8)}.js`,
    62,
    36,
  ],
  [
    "Vite and Rollup, images",
    (hash) => `logo-${hash(BASE64URL, 8)}.png`,
    62,
    62,
  ],
  ["webpack, scripts", (hash) => `main.${hash(HEX, 20)}.js`, 2, 2],
  ["webpack, images", (hash) => `${hash(HEX, 20)}.png`, 2, 2],
  ["webpack with [contenthash:8]", (hash) => `main.${hash(HEX, 8)}.js`, 12, 12],
  [
    "esbuild and Angular, scripts",
    (hash) => `chunk-${hash(BASE32, 8)}.js`,
    74,
    46,
  ],
  [
    "esbuild and Angular, images",
    (hash) => `logo-${hash(BASE32, 8)}.png`,
    74,
    74,
  ],
  ["Angular with webpack", (hash) => `main.${hash(HEX, 16)}.js`, 2, 2],
  ["Parcel", (hash) => `index.${hash(HEX, 8)}.js`, 12, 12],
  ["Next.js", (hash) => `page-${hash(HEX, 16)}.js`, 2, 2],
];

type Hash = (alphabet: string, length: number) => string;

for (const [bundler, form, ofOne, ofTen] of FORMS) {
  Deno.test(`isHashedName() misses at most ${ofOne} % of hashes of ${bundler}, and ${ofTen} % of builds with ten files`, () => {
    const random = seededRandom(1);
    const hash: Hash = (alphabet, length) =>
      Array.from(
        { length },
        () => alphabet[Math.floor(random() * alphabet.length)],
      ).join("");
    const missed = (size: number) => {
      const builds = Array.from(
        { length: 5_000 / size },
        () => new Set(Array.from({ length: size }, () => form(hash))),
      );
      const all = builds.flatMap((names) =>
        [...names].map((name) => isHashedName(name, names))
      );
      return Math.round(
        all.filter((isHashed) => !isHashed).length / all.length * 100,
      );
    };
    const shares = [missed(1), missed(10)];
    assertEquals(
      [shares[0]! <= ofOne, shares[1]! <= ofTen],
      [true, true],
      `missed ${shares.join(" and ")} %`,
    );
  });
}
