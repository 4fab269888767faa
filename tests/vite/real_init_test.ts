/** `init` on an app of Vite: after it, each mode shows what it has shown before. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import type { TestBrowser } from "../_browser.ts";
import { startCommand } from "../_command.ts";
import { ExamplePage } from "../_example.ts";
import { NpmExample, testNpmExample } from "../_npm_example.ts";
import { run } from "../command/commands/_run.ts";

/** The key of a Supabase project for its pages, which is a JSON Web Token. */
const ANON = `eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.${
  btoa('{"iss":"supabase","role":"anon"}').replaceAll("=", "")
}.c2lnbmF0dXJlLW9mLXRoZS1rZXk`;
const GOOGLE = `AIza${"Sy0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6".slice(0, 35)}`;
const RANDOM = "q7Zt0XvB3mLp9RdK2sWf8JhN4cGy6TaE";

/** Of each name, how a module reads it; 34 reads of 26 names. */
const MAIN = `import { apiUrl, plan, theme } from "./config.ts";
import { Header } from "./Header.tsx";
const { VITE_MAPS_KEY, VITE_LIMIT: limit = "none" } = import.meta.env;
const all = import.meta.env;
document.title = \`\${import.meta.env.VITE_TITLE} (\${import.meta.env.MODE})\`;
Object.assign(globalThis, { shown: () => ({
  apiUrl, plan, theme, limit, header: Header(),
  title: import.meta.env.VITE_TITLE,
  docTitle: document.title,
  description: document.querySelector("meta[name=description]").content,
  maps: VITE_MAPS_KEY,
  map: document.querySelector("meta[name=map]").content,
  mapbox: import.meta.env["VITE_MAPBOX_TOKEN"],
  auth: import.meta.env.VITE_AUTH_TOKEN_URL,
  stripe: import.meta.env?.VITE_STRIPE_KEY,
  supabase: all.VITE_SUPABASE_ANON_KEY,
  firebase: JSON.parse(import.meta.env.VITE_FIREBASE_CONFIG),
  random: import.meta.env.VITE_SEGMENT_WRITE_KEY,
  dsn: import.meta.env.VITE_SENTRY_DSN,
  flag: import.meta.env.VITE_FLAG === "true",
  flagText: import.meta.env.VITE_FLAG,
  empty: import.meta.env.VITE_EMPTY,
  emptyIsText: import.meta.env.VITE_EMPTY === "",
  unset: import.meta.env.VITE_UNSET,
  fallback: import.meta.env.VITE_UNSET ?? "fallback",
  local: import.meta.env.VITE_LOCAL,
  hash: import.meta.env.VITE_HASH,
  color: import.meta.env.VITE_COLOR,
  quoted: import.meta.env.VITE_QUOTED,
  lines: import.meta.env.VITE_LINES,
  twice: import.meta.env.VITE_TWICE,
  price: import.meta.env.VITE_PRICE,
  defaulted: import.meta.env.VITE_DEFAULTED,
  nothing: import.meta.env.VITE_NOTHING,
  zip: import.meta.env.VITE_ZIP,
  only: import.meta.env.VITE_ONLY_STAGING,
  brand: import.meta.env.VITE_BRAND,
}) });
document.querySelector("h1").textContent = "ready";
`;

const FILES: Record<string, string> = {
  "index.html":
    `<!doctype html><html><head><link rel="icon" href="data:,"><meta name="description" content="%VITE_BRAND%"><meta name="map" content="?key=%VITE_HTML_KEY%"></head>
<body><h1></h1><script type="module" src="/src/main.ts"></script></body></html>`,
  "src/main.ts": MAIN,
  "src/config.ts": `export const apiUrl = import.meta.env.VITE_API_URL;
export const plan = import.meta.env.VITE_PLAN || "free";
export const theme = import.meta.env.VITE_THEME as string;
`,
  "src/Header.tsx":
    "export const Header = () => [import.meta.env.VITE_HEADER, import.meta.env.VITE_TITLE].join();\n",
  "src/vite-env.d.ts":
    "interface ImportMetaEnv { readonly VITE_ONLY_TYPED: string }\n",
  "src/main.test.ts": "import.meta.env.VITE_TEST_USER;\n",
  "scripts/deploy.js": "process.env.VITE_DEPLOY_TOKEN;\n",
  "server.js": "process.env.VITE_SSR_SECRET;\n",
  ".env": `HOST=api.example.com
VITE_TITLE=Base
VITE_API_URL=https://\${HOST}/v1
VITE_PLAN=pro
VITE_THEME=light
VITE_LIMIT=10
VITE_HEADER="Header of $VITE_TITLE"
VITE_MAPS_KEY=${GOOGLE}
VITE_HTML_KEY=${GOOGLE}
VITE_MAPBOX_TOKEN=pk.eyJ1IjoiZXhhbXBsZSIsImEiOiJjbDEyMzQ1Njc4In0.abcdefghijklmnopqrstuv
VITE_AUTH_TOKEN_URL=https://auth.example.com/token
VITE_STRIPE_KEY=pk_live_abcdefghijklmnop1234
VITE_SUPABASE_ANON_KEY=${ANON}
VITE_FIREBASE_CONFIG={"apiKey":"${GOOGLE}","projectId":"demo"}
VITE_SEGMENT_WRITE_KEY=${RANDOM}
VITE_SENTRY_DSN=https://0123456789abcdef0123456789abcdef@o1.ingest.sentry.io/2
VITE_FLAG=true
VITE_EMPTY=
VITE_HASH=before#after
VITE_COLOR="#fff"
VITE_QUOTED='single "double"'
VITE_LINES="one
two"
VITE_TWICE=1
VITE_TWICE=2
VITE_PRICE=\\$5
VITE_DEFAULTED=\${VITE_ABSENT:-default}
VITE_NOTHING=[$VITE_ABSENT]
VITE_ZIP=01234
VITE_BRAND=Brand
VITE_ONLY_HERE=1
`,
  ".env.local": "VITE_LOCAL=mine\n",
  ".env.development": "VITE_TITLE=Development\nVITE_LIMIT=many\n",
  ".env.development.local": "VITE_THEME=dark\n",
  ".env.production": "HOST=production.example.com\nVITE_TITLE=Production\n",
  ".env.staging": "VITE_TITLE=Staging\nVITE_ONLY_STAGING=yes\nVITE_PLAN=\n",
  ".env.staging.local": "VITE_FLAG=false\n",
  ".env.example": "VITE_ONLY_EXAMPLE=1\n",
};

const MODES = ["development", "production", "staging"] as const;

async function shownBy(browser: TestBrowser, url: string): Promise<unknown> {
  const page = await ExamplePage.open(browser, url);
  await page.shows("h1", "ready");
  const shown = await page.page.evaluate("shown()");
  assertEquals(page.errors, []);
  await page.page.close();
  return shown;
}

/** Returns what each mode shows: development in its server, the others in the preview of their build. */
async function showModes(
  browser: TestBrowser,
  project: NpmExample,
  afterBuild: (mode: string, shown: unknown) => Promise<void>,
): Promise<unknown[]> {
  const results: unknown[] = [];
  for (const mode of MODES) {
    const isDev = mode === "development";
    if (!isDev) {
      const args = ["build", "--mode", mode];
      const { success, output } = await project.run("vite", ...args);
      assertEquals(success, true, output);
    }
    const command = isDev ? "dev" : "preview";
    await using vite = await project.startVite({ command, mode });
    const shown = await shownBy(browser, vite.url);
    results.push(shown);
    if (!isDev) await afterBuild(mode, shown);
  }
  return results;
}

for (const version of ["vite-6", "vite-7", "vite-8"] as const) {
  testNpmExample(
    `${version}: after init, development, the preview and the gateway show in each mode what they showed before`,
    async (browser) => {
      await using project = await NpmExample.make(version, FILES);
      const before = await showModes(browser, project, () => Promise.resolve());
      const manifest = project.at(".rep.yaml");
      const files = [
        "--manifest",
        manifest,
        "--env-file",
        project.at("app.env"),
      ];
      const { code, err } = await run(["init", project.path, ...files]);
      assertEquals(code, 0);
      const [, config = ""] = err.at(-1)?.split('rep/gateway/vite";\n') ?? [];
      await Deno.writeTextFile(
        project.at("vite.config.js"),
        `import { defineConfig } from "vite";
import { rep } from "@rep/gateway/vite";
${config}`,
      );
      const after = await showModes(browser, project, async (mode, shown) => {
        await using gateway = await startCommand([
          ...["--kv", ":memory:", "--allowed-hosts", "127.0.0.1"],
          ...["--static-dir", project.at("dist"), "--manifest", manifest],
          ...["--env-file", project.at(`app.${mode}.env`), "--strict"],
        ]);
        assertEquals(await shownBy(browser, gateway.url), shown);
      });
      assertEquals(after, before);
      assertStringIncludes(JSON.stringify(after[1]), "production.example.com");
    },
  );
}

const OPTIONS = 'envPrefix: ["APP_", "VITE_"], envDir: "env"';

testNpmExample(
  "vite-8: with envPrefix and envDir, each mode shows after init what it showed before, and then the gateway's values",
  async (browser) => {
    await using project = await NpmExample.make("vite-8", {
      "index.html":
        '<link rel="icon" href="data:,"><h1></h1><script type="module" src="/main.ts"></script>',
      "main.ts": `const { APP_TITLE, VITE_PLAN } = import.meta.env;
Object.assign(globalThis, { shown: () => ({
  APP_TITLE, VITE_PLAN,
  cast: (import.meta.env as any).APP_TITLE,
  bracket: import.meta.env["VITE_PLAN"],
  commit: import.meta.env.APP_COMMIT,
}) });
document.querySelector("h1").textContent = "ready";
`,
      "env/.env": "APP_TITLE=Base\nVITE_PLAN=free\nAPP_COMMIT=none\n",
      "env/.env.staging": "APP_TITLE=Staging\n",
      "vite.config.js": `export default { ${OPTIONS} };`,
      "package.json": JSON.stringify({
        type: "module",
        scripts: { build: "APP_COMMIT=$(git rev-parse HEAD) vite build" },
      }),
    });
    const before = await showModes(browser, project, () => Promise.resolve());
    const manifest = project.at(".rep.yaml");
    const env = project.at("app.env");
    const files = ["--manifest", manifest, "--env-file", env];
    assertEquals((await run(["init", project.path, ...files])).code, 0);
    await Deno.writeTextFile(
      project.at("vite.config.js"),
      `import { rep } from "@rep/gateway/vite";
export default ({ mode }) => ({
  ${OPTIONS},
  plugins: [rep({ manifest: ".rep.yaml", envFile: \`app.\${mode}.env\`, env: true })],
});`,
    );
    const after = await showModes(browser, project, async (mode, shown) => {
      const path = project.at(`app.${mode}.env`);
      const text = await Deno.readTextFile(path);
      await Deno.writeTextFile(path, text.replaceAll("=free", "=pro"));
      await using gateway = await startCommand([
        ...["--kv", ":memory:", "--allowed-hosts", "127.0.0.1"],
        ...["--static-dir", project.at("dist"), "--manifest", manifest],
        ...["--env-file", path, "--strict"],
      ]);
      const changed = { VITE_PLAN: "pro", bracket: "pro" };
      assertEquals(
        await shownBy(browser, gateway.url),
        Object.assign({}, shown, changed),
      );
    });
    assertEquals(after, before);
  },
);
