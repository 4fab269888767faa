/** The npm package as its users have it: installed from the tarball, with the compilers and the runtimes of today. */
import { assertEquals } from "@std/assert";
import { generateTypes } from "../src/client/generate_types.ts";
import { parseManifest } from "../src/core/config/variables/manifest.ts";
import { dirname } from "@std/path";
import { npm } from "../tools/install_npm_packages.ts";
import { buildNpmPackage, withAbsoluteLinks } from "../tools/npm_package.ts";
import { TextLineStream } from "../tools/text_lines.ts";
import { VERSION } from "../src/version.ts";
import { npmPackage } from "./_npm_package.ts";
import { pathOf, run, testRuntimes } from "./_runtimes.ts";
import { TempDirectory } from "./_temp.ts";

const SERVER =
  `import { createGateway, createLog, kvStore, memoryStore, toNodeHandler } from "@rep/gateway";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const manifest = "version: '0.1.0'\\nvariables:\\n  TITLE: { tier: public, pattern: 'H.*' }\\n";
const variables: Record<string, string> = { REP_PUBLIC_TITLE: "Hello" };
const log = createLog({ write: (line: string) => console.error(line) });
const gateway = await createGateway({ variables: () => variables, manifest, store: memoryStore(), log, hotReload: true });
const page = new Response("<html><head></head></html>", { headers: { "content-type": "text/html" } });
const html = await (await gateway.inject(page)).text();
const server = createServer(toNodeHandler(gateway)).listen(0, "127.0.0.1");
await new Promise((resolve) => server.on("listening", resolve));
const { port } = server.address() as AddressInfo;
const { status } = await (await fetch(\`http://127.0.0.1:\${port}/rep/health\`)).json() as { status: string };
variables["REP_PUBLIC_TITLE"] = "Bye";
const message = await gateway.reload().then(() => "", (error: Error) => error.message);
const title: "Hello" | "Bye" = gateway.get("TITLE");
const key: string | undefined = gateway.getPrivate("KEY");
const database: string = gateway.getPrivate("DATABASE");
gateway.onChange("DATABASE", () => {});
// @ts-expect-error: it is PUBLIC
gateway.getPrivate("TITLE");
// @ts-expect-error: it is SERVER
gateway.get("DATABASE");
// @ts-expect-error: the manifest has no such variable
gateway.onChange("TITEL", () => {});
void [title, key, database];
console.log(JSON.stringify([html.includes('"TITLE":"Hello"'), status, /TITLE/.test(message), typeof kvStore]));
await gateway.close();
server.close();
`;

const PAGE = `import rep, { get, getSecure } from "@rep/gateway/client";
import { useRep, useRepSecure } from "@rep/gateway/react";
import { repSecureStore, repStore } from "@rep/gateway/svelte";
import { setVariables } from "@rep/gateway/testing";
import { useRep as useVueRep } from "@rep/gateway/vue";
import { createElement } from "react";
import { renderToString } from "react-dom/server";
import { derived, get as valueOf, type Readable } from "svelte/store";
import { createSSRApp, h, type Ref } from "vue";

const title: "Hello" | "Bye" = get("TITLE");
const secret: Promise<string> = getSecure("KEY");
secret.catch(() => {});
// @ts-expect-error: the manifest has no such variable
get("TITEL");
setVariables({ TITLE: "Bye" }, { KEY: "secret" });
setVariables({});
// @ts-expect-error: the manifest has other values
setVariables({ TITLE: "Welcome" });
// @ts-expect-error: the manifest has no such variable
setVariables({}, { KEI: "secret" });

const titleStore: Readable<"Hello" | "Bye"> = repStore("TITLE");
const keyStore: Readable<string | null> = repSecureStore("KEY");
// @ts-expect-error: the manifest has no such variable
repStore("TITEL");
const both = derived([titleStore, keyStore], ([first, second]) => String(first ?? "none") + String(second));

function Page() {
  const text: "Hello" | "Bye" = useRep("TITLE");
  const { value, loading }: { value: string | null; loading: boolean } = useRepSecure("KEY");
  return createElement("p", null, String(text ?? "none") + String(value) + String(loading));
}
const app = createSSRApp({
  setup() {
    const text: Readonly<Ref<"Hello" | "Bye">> = useVueRep("TITLE");
    return () => h("p", text.value);
  },
});
console.log(renderToString(createElement(Page)), typeof app.mount, valueOf(both), title ?? rep.get("TITLE") ?? "none");
`;

const VITE = `import { rep } from "@rep/gateway/vite";

const [plugin] = rep({ manifest: ".rep.yaml", envFile: ["app.env"], types: false });
console.log(plugin?.name);
`;

const MANIFEST = `version: "0.1.0"
variables:
  TITLE: { tier: public, type: enum, values: [Hello, Bye], required: true }
  KEY: { tier: sensitive }
  DATABASE: { tier: server, required: true }
`;

/** Everything that a strict project turns on; what the package declares is checked, too. */
const STRICT = {
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: false,
};
const BUNDLER = { module: "ESNext", moduleResolution: "bundler" };
const NODENEXT = { module: "NodeNext", moduleResolution: "NodeNext" };
/** What runs in a browser has no types of Node, and what runs on Node has none of a browser. */
const BROWSER = {
  files: ["page.ts", "rep.d.ts"],
  options: { lib: ["ES2022", "DOM"], types: [] },
};
const NODE = {
  files: ["server.ts", "vite.ts", "rep.d.ts"],
  options: { lib: ["ES2022"], types: ["node"] },
};

/** The configurations of the compiler by the names of their files. */
function configurations() {
  return new Map(
    [BUNDLER, NODENEXT].flatMap((resolution) =>
      Object.entries({ BROWSER, NODE }).map(([name, { files, options }]) => {
        const compilerOptions = {
          ...STRICT,
          target: "ES2022",
          noEmit: true,
          ...resolution,
          ...options,
        };
        return [
          `${resolution.moduleResolution}-${name}.json`,
          JSON.stringify({ compilerOptions, files }),
        ] as const;
      })
    ),
  );
}

/** A project that uses every entry. @param typescript The version of the compiler. */
async function makeProject(
  tarball: string,
  typescript: string,
) {
  const dependencies = {
    "@rep/gateway": `file:${tarball}`,
    "@types/node": "22.20.5",
    "@types/react": "19.3.0",
    "@types/react-dom": "19.3.0",
    react: "19.3.1",
    "react-dom": "19.3.1",
    svelte: "5.57.3",
    typescript,
    vue: "3.5.45",
  };
  return await TempDirectory.make({
    "package.json": JSON.stringify({
      private: true,
      type: "module",
      dependencies,
    }),
    "server.ts": SERVER,
    "page.ts": PAGE,
    "vite.ts": VITE,
    "rep.d.ts": generateTypes(
      parseManifest(MANIFEST).variables,
    ),
    ...Object.fromEntries(configurations()),
  });
}

/** Returns the real paths of a package's copies below a folder. */
async function copiesOf(name: string, folder: string) {
  const { stdout } = await new Deno.Command("find", {
    args: [folder, "-path", `*/node_modules/${name}/package.json`],
  }).output();
  const paths = new TextDecoder().decode(stdout).trim().split("\n");
  return new Set(await Promise.all(paths.map((path) => Deno.realPath(path))));
}

async function installByNpm({ path }: TempDirectory) {
  const { success, stdout, stderr } = await npm([
    "install",
    "--prefer-offline",
    "--no-audit",
    "--no-fund",
  ], path);
  assertEquals(success, true, `${stdout}\n${stderr}`);
}

async function installByPnpm({ path }: TempDirectory) {
  const pnpm = pathOf("pnpm");
  await run("Node 24", [
    pnpm,
    "install",
    "--prefer-offline",
    "--no-frozen-lockfile",
  ], path);
}

const INSTALLERS = [
  { name: "npm", install: installByNpm, typescript: "7.0.2" },
  { name: "pnpm", install: installByPnpm, typescript: "5.9.3" },
];

for (const { name, install, typescript } of INSTALLERS) {
  testRuntimes(
    `the npm package, installed by ${name}, has types for TypeScript ${typescript}, and runs on Node`,
    async () => {
      const { tarball } = await npmPackage();
      await using project = await makeProject(tarball, typescript);
      await install(project);
      for (const file of configurations().keys()) {
        await run("Node 24", [
          "node_modules/typescript/bin/tsc",
          "--project",
          file,
        ], project.path);
      }
      assertEquals(
        await run("Node 22", ["server.ts"], project.path),
        `[true,"healthy",true,"function"]\n`,
      );
      assertEquals(
        await run("Node 22", ["page.ts"], project.path),
        "<p>nonenulltrue</p> function nonenull none\n",
      );
      assertEquals(await run("Node 22", ["vite.ts"], project.path), "rep\n");
      assertEquals((await copiesOf("react", project.path)).size, 1);
    },
  );
}

Deno.test("the page of the npm package has absolute links to the files of its version", () => {
  const page =
    "![A](docs/a.png) [b](docs/b.md#c) [c](#d) [e](https://example.com/) [f\ng](SECURITY.md)";
  const root = "https://github.com/someone/gateway";
  assertEquals(
    withAbsoluteLinks(page, "someone/gateway"),
    `![A](${root}/raw/v${VERSION}/docs/a.png) [b](${root}/blob/v${VERSION}/docs/b.md#c) [c](#d) ` +
      `[e](https://example.com/) [f\ng](${root}/blob/v${VERSION}/SECURITY.md)`,
  );
});

Deno.test("the npm package says where it comes from, and contains the schema of manifests", async () => {
  await using built = await TempDirectory.make();
  await buildNpmPackage(built.path, "someone/gateway");
  const read = async (name: string) =>
    JSON.parse(await Deno.readTextFile(built.at(`package/${name}`)));
  const { homepage, repository, bugs, keywords, exports, preferUnplugged } =
    await read("package.json");
  const root = "https://github.com/someone/gateway";
  assertEquals(
    { homepage, repository, bugs },
    {
      homepage: `${root}#readme`,
      repository: `git+${root}.git`,
      bugs: `${root}/issues`,
    },
  );
  assertEquals(keywords.includes("vite-plugin"), true);
  assertEquals(preferUnplugged, true); // otherwise Deno does not find the modules with Yarn's default linker
  const schema = await read(exports["./schema/rep.schema.json"]);
  assertEquals(schema.required, ["version", "variables"]);
});

/** A server that does nothing at its end but to close. */
const CLOSING_SERVER =
  `import { createGateway, toNodeHandler } from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";
import { createServer } from "node:http";

const gateway = await createGateway({ variables: () => readEnvFile("app.env"), hotReload: true });
await watchFiles(["app.env"], () => void gateway.reload());
const server = createServer(toNodeHandler(gateway)).listen(0, "127.0.0.1");
server.on("listening", () => console.log("http://127.0.0.1:" + server.address().port));
process.once("SIGTERM", () => server.close());
`;

/** The same without a server: nothing is left to do. */
const ENDING_SCRIPT = CLOSING_SERVER.split("const server")[0]!;

/** A busy machine needs less. Node.js keeps a connection for 5 s after its last response, and a stream lasts longer. */
const MAX_END_MS = 4_000;

testRuntimes(
  "the npm package lets a process of Node end: a script, and a server that is closed while a page listens to changes",
  async () => {
    await using project = await TempDirectory.make({
      "package.json": '{"type":"module"}',
      "app.env": "REP_PUBLIC_TITLE=Hello\n",
      "script.js": ENDING_SCRIPT,
      "server.js": CLOSING_SERVER,
    });
    await installTarball((await npmPackage()).tarball, project);
    for (const node of ["Node 22", "Node 24"] as const) {
      await run(node, ["script.js"], project.path);
      const options = { args: ["server.js"], cwd: project.path };
      const server = new Deno.Command(pathOf(node), {
        ...options,
        stdout: "piped",
      }).spawn();
      const lines = server.stdout.pipeThrough(new TextDecoderStream())
        .pipeThrough(new TextLineStream());
      const { value: url } = await lines.getReader().read();
      const stream = await fetch(`${url}/rep/changes`);
      const kill = setTimeout(() => server.kill("SIGKILL"), MAX_END_MS);
      server.kill("SIGTERM");
      assertEquals((await server.status).signal, null, node);
      clearTimeout(kill);
      await stream.body?.cancel();
    }
  },
);

/** A server of a framework; the second one ends itself at SIGTERM. */
const FRAMEWORK_SERVER = `import { startGateway } from "@rep/gateway/server";
import { createServer } from "node:http";

await startGateway({ envFile: "app.env", log: { debug() {}, info() {}, warn() {}, error() {} } });
const server = createServer().listen(0, "127.0.0.1", () => console.log("listening"));
`;
const ENDING_SERVER =
  `${FRAMEWORK_SERVER}process.once("SIGTERM", () => server.close(() => process.exit(3)));\n`;

testRuntimes(
  "startGateway() of @rep/gateway/server closes at SIGTERM, and ends the process unless the server does",
  async () => {
    await using project = await TempDirectory.make({
      "package.json": '{"type":"module"}',
      "app.env": "REP_PUBLIC_TITLE=Hello\n",
      "alone.js": FRAMEWORK_SERVER,
      "ending.js": ENDING_SERVER,
    });
    await installTarball((await npmPackage()).tarball, project);
    const ends: [string, string | null, number][] = [];
    for (const script of ["alone.js", "ending.js"]) {
      const options = { args: [script], cwd: project.path };
      const server = new Deno.Command(pathOf("Node 24"), {
        ...options,
        stdout: "piped",
      }).spawn();
      const reader = server.stdout.getReader();
      await reader.read();
      server.kill("SIGTERM");
      const { signal, code } = await server.status;
      ends.push([script, signal, code]);
      await reader.cancel();
    }
    assertEquals(ends, [["alone.js", "SIGTERM", 143], ["ending.js", null, 3]]);
  },
);

async function installTarball(
  tarball: string,
  { path }: TempDirectory,
) {
  const options = ["--prefer-offline", "--no-audit", "--no-fund"];
  const outcome = await npm(["install", ...options, tarball], path);
  assertEquals(outcome.success, true, outcome.stderr);
}

testRuntimes(
  "the npm package has the commands that need no server: npx runs them on Node alone",
  async () => {
    await using project = await TempDirectory.make({
      "app.tsx": "import.meta.env.VITE_TITLE",
      ".env": "VITE_TITLE=Hello\n",
    });
    await Deno.mkdir(project.at("dist"));
    await project.write("dist/index.html", "<html><head></head></html>");
    await installTarball((await npmPackage()).tarball, project);
    const program = await Deno.realPath(
      project.at("node_modules/.bin/rep-gateway"),
    );
    const runs = [
      ["--version", 0, VERSION],
      ["--help", 0, "npx @rep/gateway COMMAND"],
      ["inject --help", 0, "npx @rep/gateway inject DIR ..."],
      ["init", 0, ".rep.yaml: written\napp.env: written\n"],
      ["init", 0, ".rep.yaml: written\napp.env: written\n"],
      ["init --force -env-file new.env", 0, "new.env: written\n"],
      ["validate --strict=x", 2, "Cannot read --strict"],
      ["validate --env-file app.env", 0, "Valid: 1 variables"],
      ["typegen", 0, "readonly TITLE: string;"],
      ["typegen --out rep.d.ts", 0, "Wrote rep.d.ts"],
      ["lint", 0, "0 values that look like secrets in 1 files"],
      ["inject dist --env-file app.env", 0, "dist/index.html: injected"],
      ["inject", 2, "expected DIR"],
      ["lint --strictt", 2, "did you mean --strict?"],
      ["dev", 2, 'Cannot use "dev": expected a command or options'],
    ] as const;
    for (const [line, code, printed] of runs) {
      const args = [program, ...line.split(" ")];
      const options = { args, cwd: project.path, stdin: "null" } as const;
      const command = new Deno.Command(pathOf("Node 22"), options);
      const { code: actual, stdout, stderr } = await command.output();
      const decoder = new TextDecoder();
      const output = decoder.decode(stdout) + decoder.decode(stderr);
      const shown = output.includes(printed) ? printed : output;
      assertEquals([line, actual, shown], [line, code, printed]);
    }
    const unread = new Deno.Command(pathOf("Node 22"), {
      args: [program, "typegen", "--out", "unread.d.ts"],
      cwd: project.path,
      stderr: "piped",
    }).spawn();
    await unread.stderr.cancel();
    assertEquals((await unread.status).code, 0);
    const bin = dirname(pathOf("Node 22")); // npm itself may run on an older one
    const npx = await npm(
      ["exec", "--", "@rep/gateway", "--version"],
      project.path,
      { PATH: `${bin}:${Deno.env.get("PATH")}` },
    );
    assertEquals(npx.stdout, `${VERSION}\n`, npx.stderr);
    const page = await Deno.readTextFile(project.at("dist/index.html"));
    assertEquals(page.includes('"TITLE":"Hello"'), true);
  },
);
