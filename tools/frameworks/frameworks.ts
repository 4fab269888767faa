/** How a server is started. */
export interface FrameworkServer {
  readonly mode: "development" | "preview" | "production";
  /** A line of the shell; `PORT` is replaced. */
  readonly command: string;
  /** Whether it renders values. @default {as the framework} */
  readonly rendersValues?: boolean;
}

/** A framework that is tried. */
export interface Framework {
  readonly name: string;
  /** The folder below `examples/frameworks/` whose files are copied over those of the template. */
  readonly example: string;
  /** Which of the example's files are copied. @default {all of them} */
  readonly only?: readonly string[];
  /** More files, by their paths. */
  readonly files?: Readonly<Record<string, string>>;
  /** Makes the folder `app` from the newest template. */
  readonly create: string;
  /** Runs in the folder before the gateway's package is installed. */
  readonly install?: string;
  readonly build: string;
  /** Whether its server renders pages, and so their values. @default {false} */
  readonly rendersValues?: boolean;
  /** The folder with the pages of the build, which must not contain values. */
  readonly outDir: string;
  readonly servers: readonly FrameworkServer[];
  /** Whether the files have a route `/other`, with the heading "Other", that is no file of the build. @default {false} */
  readonly hasOtherRoute?: boolean;
}

const SVELTEKIT = {
  example: "sveltekit",
  create:
    "npx -y sv@latest create app --template minimal --types ts --no-add-ons --install npm",
  build:
    "npx rep-gateway typegen --out src/rep.d.ts && npm run check && npm run build",
  outDir: "build",
};
const REACT_ROUTER = {
  example: "react-router",
  create: "npx -y create-react-router@latest app --yes --no-git-init --install",
  build: "npm run build",
  outDir: "build",
};
const ASTRO = {
  example: "astro",
  create:
    "npm create astro@latest app -- --template minimal --install --no-git --yes --skip-houston",
  build: "npm run build",
  outDir: "dist",
};
const NEXT = {
  example: "next",
  create:
    "npx -y create-next-app@latest app --yes --ts --app --src-dir --no-eslint --no-tailwind --use-npm --disable-git",
  build: "npm run build",
  outDir: ".next/server",
};
const NITRO_START = "HOST=127.0.0.1 PORT=PORT node .output/server/index.mjs";
const NEXT_DEV = "npx next dev -H 127.0.0.1 -p PORT";
const NEXT_START = "npx next start -H 127.0.0.1 -p PORT";
const VITE_DEV = "npx vite dev --host 127.0.0.1 --port PORT";
const VITE_PREVIEW = "npx vite preview --host 127.0.0.1 --port PORT";

/** The command of this checkout, with the content that it serves: `$APP` is the folder of the app. */
function gatewayWith(content: string): string {
  return `APP=$PWD; cd $CHECKOUT; $GATEWAY --hostname 127.0.0.1 --port PORT --kv :memory: --allowed-hosts 127.0.0.1 ${content} --manifest $APP/.rep.yaml --env-file $APP/app.env`;
}

/** The gateway, which serves a build. */
function gateway(folder: string): string {
  return gatewayWith(`--static-dir $APP/${folder}`);
}

/** The gateway in front of a server on the next port. */
function gatewayBefore(server: string): string {
  const behind = server.replace("PORT", "$((PORT + 1))");
  const front = gatewayWith("--upstream http://127.0.0.1:$((PORT + 1))");
  return `${behind} & ${front}`;
}

/** Each is made from its newest template. To try another one, add an entry, and its files to `examples/frameworks/`. */
export const FRAMEWORKS: readonly Framework[] = [
  {
    ...SVELTEKIT,
    name: "SvelteKit, adapter-node",
    rendersValues: true,
    install: "npm install --save-dev @sveltejs/adapter-node@5",
    servers: [
      {
        mode: "development",
        command: VITE_DEV,
      },
      { mode: "preview", command: VITE_PREVIEW },
      {
        mode: "production",
        command:
          "HOST=127.0.0.1 PORT=PORT ORIGIN=http://127.0.0.1:PORT node build",
      },
    ],
  },
  {
    ...SVELTEKIT,
    name: "SvelteKit, adapter-static",
    install: "npm install --save-dev @sveltejs/adapter-static@3",
    only: ["src/routes/+page.svelte"],
    files: {
      "src/routes/+layout.ts": "export const ssr = false;\n",
      "vite.config.ts": `import { rep } from "@rep/gateway/vite";
import adapter from "@sveltejs/adapter-static";
import { sveltekit } from "@sveltejs/kit/vite";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [
    rep({ manifest: ".rep.yaml", envFile: "app.env" }),
    sveltekit({ adapter: adapter({ fallback: "index.html" }) }),
  ],
});
`,
    },
    servers: [
      {
        mode: "development",
        command: VITE_DEV,
      },
      { mode: "preview", command: VITE_PREVIEW },
      { mode: "production", command: gateway("build") },
    ],
  },
  {
    ...SVELTEKIT,
    name: "SvelteKit, adapter-static, 200.html",
    install: "npm install --save-dev @sveltejs/adapter-static@3",
    only: ["src/routes/+page.svelte"],
    files: {
      "src/routes/+page.ts": "export const prerender = true;\n",
      "src/routes/other/+page.svelte": "<h1>Other</h1>\n",
      "vite.config.ts": `import { rep } from "@rep/gateway/vite";
import adapter from "@sveltejs/adapter-static";
import { sveltekit } from "@sveltejs/kit/vite";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [
    rep({ manifest: ".rep.yaml", envFile: "app.env" }),
    sveltekit({ adapter: adapter({ fallback: "200.html" }) }),
  ],
});
`,
    },
    hasOtherRoute: true,
    servers: [{ mode: "production", command: gateway("build") }],
  },
  {
    ...REACT_ROUTER,
    name: "React Router",
    rendersValues: true,
    servers: [
      {
        mode: "development",
        command: "npx react-router dev --host 127.0.0.1 --port PORT",
      },
      { mode: "preview", command: VITE_PREVIEW },
      {
        mode: "production",
        command:
          "HOST=127.0.0.1 PORT=PORT npx react-router-serve build/server/index.js",
      },
    ],
  },
  {
    ...REACT_ROUTER,
    name: "React Router, ssr: false",
    only: ["vite.config.ts", "app/routes/home.tsx"],
    files: { "react-router.config.ts": "export default { ssr: false };\n" },
    servers: [
      {
        mode: "development",
        command: "npx react-router dev --host 127.0.0.1 --port PORT",
      },
      { mode: "preview", command: VITE_PREVIEW },
      { mode: "production", command: gateway("build/client") },
    ],
  },
  {
    ...REACT_ROUTER,
    name: "React Router, ssr: false, prerender",
    only: ["vite.config.ts", "app/routes/home.tsx"],
    files: {
      "react-router.config.ts":
        'export default { ssr: false, prerender: ["/"] };\n',
      "app/routes.ts": `import { index, route } from "@react-router/dev/routes";

export default [index("routes/home.tsx"), route("other", "routes/other.tsx")];
`,
      "app/routes/other.tsx": `export default function Other() {
  return <h1>Other</h1>;
}
`,
    },
    hasOtherRoute: true,
    servers: [{ mode: "production", command: gateway("build/client") }],
  },
  {
    ...ASTRO,
    name: "Astro, Node adapter",
    rendersValues: true,
    install: "npm install @astrojs/node",
    servers: [
      {
        mode: "development",
        command: "npx astro dev --host 127.0.0.1 --port PORT",
      },
      {
        mode: "production",
        command: "HOST=127.0.0.1 PORT=PORT node dist/server/entry.mjs",
      },
    ],
  },
  {
    ...ASTRO,
    name: "Astro, static",
    only: ["src/pages/index.astro"],
    files: {
      "astro.config.mjs": `import { rep } from "@rep/gateway/vite";
import { defineConfig } from "astro/config";

export default defineConfig({
  vite: { plugins: [rep({ manifest: ".rep.yaml", envFile: "app.env" })] },
});
`,
    },
    servers: [
      {
        mode: "development",
        command: "npx astro dev --host 127.0.0.1 --port PORT",
      },
      { mode: "production", command: gateway("dist") },
    ],
  },
  {
    name: "Nuxt",
    rendersValues: true,
    example: "nuxt",
    create:
      "npm create nuxt@latest app -- --template minimal --packageManager npm --no-gitInit --no-modules",
    build: "npm run build",
    outDir: ".output/public",
    servers: [
      {
        mode: "development",
        command: "npx nuxt dev --host 127.0.0.1 --port PORT",
      },
      {
        mode: "production",
        command: "HOST=127.0.0.1 PORT=PORT node .output/server/index.mjs",
      },
    ],
  },
  {
    name: "TanStack Start",
    rendersValues: true,
    example: "tanstack-start",
    create:
      "npx -y @tanstack/cli@latest create app --framework React --blank --deployment nitro --no-toolchain --no-git --no-intent --yes --package-manager npm",
    build: "npm run build",
    outDir: ".output/public",
    servers: [
      { mode: "development", command: VITE_DEV, rendersValues: false },
      { mode: "preview", command: VITE_PREVIEW },
      { mode: "production", command: NITRO_START },
    ],
  },
  {
    name: "SolidStart",
    rendersValues: true,
    example: "solidstart",
    create:
      "npm create solid@latest -- --solidstart --v2 --ts --template basic --project-name app && cd app && npm install",
    build: "npm run build",
    outDir: ".output/public",
    servers: [
      { mode: "development", command: VITE_DEV },
      { mode: "preview", command: VITE_PREVIEW },
      { mode: "production", command: NITRO_START },
    ],
  },
  {
    name: "Qwik",
    rendersValues: true,
    example: "qwik",
    create:
      "npm create qwik@latest empty app && cd app && npm install && npx qwik add express --skipConfirmation=true",
    build: "npm run build",
    outDir: "dist",
    servers: [
      {
        mode: "development",
        command: "npx vite --mode ssr --host 127.0.0.1 --port PORT",
      },
      {
        mode: "production",
        command: "HOST=127.0.0.1 PORT=PORT node server/entry.express",
      },
      // Its build replaces that of the production server.
      {
        mode: "preview",
        command: `npm run build.preview && ${VITE_PREVIEW}`,
      },
    ],
  },
  {
    ...NEXT,
    name: "Next.js",
    rendersValues: true,
    servers: [
      { mode: "development", command: NEXT_DEV },
      { mode: "production", command: NEXT_START },
    ],
  },
  {
    ...NEXT,
    name: "Next.js, gateway in front",
    only: ["src/app/page.tsx"],
    files: {
      "src/app/layout.tsx": `import "./globals.css";

export default function RootLayout({ children }: LayoutProps<"/">) {
  return <html lang="en"><body>{children}</body></html>;
}
`,
    },
    servers: [
      { mode: "development", command: gatewayBefore(NEXT_DEV) },
      { mode: "production", command: gatewayBefore(NEXT_START) },
    ],
  },
];
