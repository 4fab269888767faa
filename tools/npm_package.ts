/**
 * Builds the npm package of the module, as a folder and as a tarball:
 *
 *     deno task npm    # writes npm/package and npm/rep-gateway-0.1.0.tgz
 *
 * The modules of `@std` are bundled in; other packages are imported by their names.
 */
import { dirname, join, relative, toFileUrl } from "@std/path";
import ts from "typescript";
import config from "../deno.json" with { type: "json" };
import { npm } from "./install_npm_packages.ts";
import { LAZY_PACKAGES } from "./release.ts";
import { stdFlags } from "./std.ts";

const ROOT = join(import.meta.dirname ?? ".", "..");

/** The program of the package, which `npx @rep/gateway` runs, since it is the only one. */
const PROGRAM_NAME = "rep-gateway";
const GATEWAY_NAME = "deno";
const PROGRAM = `#!/usr/bin/env node
import { launch } from "${urlOf("tools/npm/launcher.ts")}";
import process from "node:process";
import { fileURLToPath } from "node:url";

await launch(process.argv.slice(2), fileURLToPath(new URL("./${GATEWAY_NAME}.js", import.meta.url)));
`;

/** What the program runs on Deno: the command. */
const GATEWAY = `import { main } from "${urlOf("src/command/main.ts")}";

await main(Deno.args, "npx @rep/gateway");
`;

/** Editors check a manifest with it. */
const SCHEMA = "./schema/rep.schema.json";

/** For `deno serve`, which only Deno provides. */
const DENO_ONLY = ["./serve"];

/**
 * Patterns in a manifest need it, and the Vite plugin always. It is small and has no dependencies, so it is installed.
 */
const DEPENDENCY = "re2js";
/** The frameworks, since a project must have only one copy of each, and what only some gateways need. */
const OPTIONAL_PEERS: Readonly<Record<string, string>> = {
  "@deno/kv": ">=0.14.0",
  "@opentelemetry/api": "^1.9.0",
  pg: "^8.11.0",
  react: ">=18",
  vue: "^3.3.0",
};

/** Returns the source of each entry by the name of its file in the package: `index`, `client`, … */
function entries(): ReadonlyMap<string, string> {
  const published = Object.entries(config.exports).filter(([path]) =>
    !DENO_ONLY.includes(path)
  );
  return new Map(
    published.map((
      [path, source],
    ) => [path.slice("./".length) || "index", source.slice("./".length)]),
  );
}

/** Returns the version of a package that the gateway imports on demand. */
function lazyVersion(name: string): string | undefined {
  return LAZY_PACKAGES.find((address) => address.startsWith(`npm:${name}@`))
    ?.split("@").at(-1);
}

/** Returns the `package.json`. @param repository The repository on GitHub: provenance has to name it. */
function packageJson(repository: string | undefined) {
  const exports = [...entries()].map(([name, source]) => {
    const types = `./types/${source.replace(/\.ts$/, ".d.ts")}`;
    return [name === "index" ? "." : `./${name}`, {
      types,
      default: `./${name}.js`,
    }];
  });
  return {
    name: config.name,
    version: config.version,
    description:
      "Hands a single-page app its configuration at run time, and tells it when that changes",
    license: config.license,
    keywords: [
      "configuration",
      "runtime-environment",
      "environment-variables",
      "single-page-app",
      "vite-plugin",
    ],
    ...(repository === undefined ? {} : {
      homepage: `https://github.com/${repository}#readme`,
      repository: `git+https://github.com/${repository}.git`,
      bugs: `https://github.com/${repository}/issues`,
    }),
    type: "module",
    sideEffects: false,
    preferUnplugged: true, // Deno reads no modules in the archives of Yarn Plug'n'Play
    engines: { node: ">=22" },
    bin: { [PROGRAM_NAME]: `./${PROGRAM_NAME}.js` },
    exports: { ...Object.fromEntries(exports), [SCHEMA]: SCHEMA },
    dependencies: { [DEPENDENCY]: lazyVersion(DEPENDENCY) },
    peerDependencies: OPTIONAL_PEERS,
    peerDependenciesMeta: Object.fromEntries(
      Object.keys(OPTIONAL_PEERS).map((name) => [name, { optional: true }]),
    ),
  };
}

/**
 * Writes the modules. Each entry imports its source instead of being it, so that the bundler knows that no entry is the
 * main program. Otherwise the bundle of an application would start the command for Deno.
 */
async function writeModules(folder: string): Promise<void> {
  const sources = await Deno.makeTempDir();
  try {
    for (const [name, source] of entries()) {
      await Deno.writeTextFile(
        join(sources, `${name}.ts`),
        await entryOf(source),
      );
    }
    await Deno.writeTextFile(join(sources, `${PROGRAM_NAME}.ts`), PROGRAM);
    await Deno.writeTextFile(join(sources, `${GATEWAY_NAME}.ts`), GATEWAY);
    const external = [
      `${config.name}/client`,
      DEPENDENCY,
      ...Object.keys(OPTIONAL_PEERS),
    ].map((name) => `--external=${name}`);
    const options = [
      "--quiet",
      "--no-lock",
      "--config=deno.json",
      "--code-splitting",
      "--platform=deno",
      ...external,
    ];
    const files = [...entries().keys(), PROGRAM_NAME, GATEWAY_NAME].map((
      name,
    ) => join(sources, `${name}.ts`));
    const args = [
      "bundle",
      ...options,
      ...await stdFlags(),
      `--outdir=${folder}`,
      ...files,
    ];
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args,
      cwd: ROOT,
    }).output();
    if (!success) {
      throw new Error(
        `Cannot bundle the module: ${new TextDecoder().decode(stderr)}`,
      );
    }
  } finally {
    await Deno.remove(sources, { recursive: true });
  }
}

/** Returns the URL of a module of this repository. */
function urlOf(source: string): string {
  return toFileUrl(join(ROOT, source)).href;
}

async function entryOf(source: string): Promise<string> {
  const address = JSON.stringify(urlOf(source));
  const hasDefault = /\bas default\b/.test(
    await Deno.readTextFile(join(ROOT, source)),
  );
  return `export * from ${address};\n${
    hasDefault ? `export { default } from ${address};\n` : ""
  }`;
}

/** An import of a module of the project in a declaration. */
const OWN_IMPORT = /(?<=\bfrom |\bimport\()"(\.{1,2}\/[^"]+)\.ts"/g;

/**
 * Writes the declarations of everything that the entries' declarations mention. Each is made from its own module alone,
 * as JSR makes them, so that no package has to be found.
 */
async function writeDeclarations(folder: string): Promise<void> {
  const sources = new Set(entries().values());
  for (const source of sources) { // grows while it is iterated
    const text = declarationOf(
      await Deno.readTextFile(join(ROOT, source)),
      source,
    );
    for (const [, path] of text.matchAll(OWN_IMPORT)) {
      sources.add(join(dirname(source), `${path}.ts`));
    }
    const target = join(folder, source.replace(/\.ts$/, ".d.ts"));
    await Deno.mkdir(dirname(target), { recursive: true });
    await Deno.writeTextFile(target, text.replaceAll(OWN_IMPORT, '"$1.js"'));
  }
}

function declarationOf(text: string, fileName: string): string {
  const compilerOptions = {
    target: ts.ScriptTarget.ESNext,
    isolatedDeclarations: true,
    strict: true,
  };
  const { outputText } = ts.transpileDeclaration(text, {
    fileName,
    compilerOptions,
  });
  // TypeScript includes this library by default for the target ESNext only, so not every project has it.
  return /Dispos(e|able)\b/.test(outputText)
    ? `/// <reference lib="esnext.disposable" />\n${outputText}`
    : outputText;
}

/** A relative link of a page, or with `!`, a picture. */
const RELATIVE_LINK = /(!?)(\[[^\]]*\])\((?!https?:|#)([^)]+)\)/g;

/** Returns a page of this version whose links and pictures work outside of the repository. */
export function withAbsoluteLinks(page: string, repository: string): string {
  const version = `v${config.version}`;
  return page.replaceAll(
    RELATIVE_LINK,
    (_, mark: string, label: string, path: string) => {
      const view = mark === "!" ? "raw" : "blob";
      return `${mark}${label}(https://github.com/${repository}/${view}/${version}/${path})`;
    },
  );
}

/**
 * Builds the package in a folder, where it replaces an earlier one.
 *
 * @returns The path of the tarball.
 * @throws {Error} If it cannot be bundled or packed.
 */
export async function buildNpmPackage(
  folder: string,
  repository: string | undefined = Deno.env.get("GITHUB_REPOSITORY"),
): Promise<string> {
  const target = join(folder, "package");
  await Deno.mkdir(target, { recursive: true });
  for await (const { name } of Deno.readDir(target)) {
    await Deno.remove(join(target, name), { recursive: true });
  }
  await Promise.all([
    writeModules(target),
    writeDeclarations(join(target, "types")),
  ]);
  await Deno.writeTextFile(
    join(target, "package.json"),
    `${JSON.stringify(packageJson(repository), null, 2)}\n`,
  );
  await Deno.mkdir(join(target, dirname(SCHEMA)));
  for (const name of ["LICENSE", SCHEMA]) {
    await Deno.copyFile(join(ROOT, name), join(target, name));
  }
  const readme = await Deno.readTextFile(join(ROOT, "README.md"));
  await Deno.writeTextFile(
    join(target, "README.md"),
    repository === undefined ? readme : withAbsoluteLinks(readme, repository),
  );
  const { success, stdout, stderr } = await npm([
    "pack",
    "--json",
    "--pack-destination",
    folder,
    target,
  ], folder);
  if (!success) throw new Error(`Cannot pack the npm package: ${stderr}`);
  return join(folder, JSON.parse(stdout)[0].filename);
}

if (import.meta.main) {
  const tarball = await buildNpmPackage(join(ROOT, "npm"));
  await Deno.stdout.write(
    new TextEncoder().encode(`${relative(Deno.cwd(), tarball)}\n`),
  );
}
