/**
 * What a plain start loads. Each module takes time, and the first of `node:` much of it: Deno then loads its Node layer.
 */
import { assert, assertEquals } from "@std/assert";
import { stdFlags } from "../tools/std.ts";

/** The parts of the output of `deno info --json` that are used. */
interface ModuleGraph {
  roots: readonly string[];
  redirects: Readonly<Record<string, string>>;
  modules: readonly {
    specifier: string;
    dependencies?: readonly Dependency[];
  }[];
}

interface Dependency {
  /** Absent for what only types need. */
  code?: { specifier?: string };
  isDynamic?: boolean;
}

const ROOT = new URL("../", import.meta.url).href;

async function readGraph(entry: string): Promise<ModuleGraph> {
  const args = ["info", "--quiet", "--json", ...await stdFlags(), entry];
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args,
    cwd: new URL(ROOT),
  }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

/**
 * Returns what a module loads without `import()`, itself included: relative to the project, or as a URL.
 *
 * @param more Modules that it loads with `import()` in the mode that is meant, with what these load.
 */
async function staticModulesOf(
  entry: string,
  more: readonly string[] = [],
): Promise<string[]> {
  const { roots, redirects, modules } = await readGraph(entry);
  const dependencies = new Map(
    modules.map((
      { specifier, dependencies = [] },
    ) => [specifier, dependencies]),
  );
  const found = new Set([...roots, ...more.map((path) => ROOT + path)]);
  for (const specifier of found) { // grows while it is iterated
    const imported = (dependencies.get(redirects[specifier] ?? specifier) ?? [])
      .filter(({ isDynamic }) => !isDynamic);
    for (const { code } of imported) {
      if (code?.specifier !== undefined) found.add(code.specifier);
    }
  }
  return [...found].map((specifier) => specifier.replace(ROOT, "")).sort();
}

/** What a plain start does not need, and the modules that it is in: each pattern has to match one. */
const NOT_NEEDED: Readonly<Record<string, readonly RegExp[]>> = {
  "the Node layer": [/^node:/],
  "@std/path, which looks for Node's process": [
    /\/path(@[\d.]+)?\/|@std\/path/,
  ],
  "the YAML parser and manifests": [
    /yaml/,
    /src\/core\/config\/variables\/manifest/,
    /src\/core\/config\/variables\/apply_manifest/,
    /manifest_settings/,
  ],
  "the proxy": [/src\/content\/proxy\//],
  "static files": [/src\/content\/static\//, /media.types/],
  "content codings": [/src\/content\/coding\//],
  "pages": [/src\/core\/pages\//],
  "commands and --help": [
    /src\/command\/commands\/(?!command_table)/,
    /src\/command\/options\/help/,
  ],
  "the file watcher": [
    /src\/command\/sources\/triggers/,
    /src\/files\/watch_paths/,
  ],
  "the status page": [/src\/addons\/status\//],
  "the browser module": [/src\/client\//, /src\/addons\/client_script\//],
  "the event log, streams and the rollout": [
    /src\/core\/changes\/(?!stream_rejections|known_events)/,
    /src\/core\/rollout\//,
  ],
  "files and servers as a store": [
    /src\/engines\/open_named/,
    /src\/engines\/remote/,
    /src\/engines\/postgres\//,
  ],
};

for (const entry of ["src/command/main.ts", "serve.ts"]) {
  Deno.test(`${entry} loads nothing that a plain start does not need`, async () => {
    const modules = await staticModulesOf(entry);
    assert(modules.includes("src/gateway.ts"));
    const superfluous = Object.entries(NOT_NEEDED).flatMap((
      [what, patterns],
    ) =>
      modules.filter((it) => patterns.some((pattern) => pattern.test(it)))
        .map((specifier) => `${specifier} (${what})`)
    );
    assertEquals(superfluous, []);
    assertEquals(
      modules.filter((specifier) => /^npm:(?!\/?deno-std@)/.test(specifier)),
      [],
    );
  });
}

Deno.test("everything that a plain start must not load is loaded on demand", async () => {
  const { modules } = await readGraph("main.ts");
  const specifiers = modules.map(({ specifier }) =>
    specifier.replace(ROOT, "")
  );
  const unmatched = Object.values(NOT_NEEDED).flat().filter((pattern) =>
    !specifiers.some((it) => pattern.test(it))
  );
  assertEquals(unmatched, []);
});

Deno.test("main.ts, imported as a module, loads nothing of the command and nothing of the Node layer", async () => {
  const modules = await staticModulesOf("main.ts");
  assert(modules.includes("src/gateway.ts"));
  const ofCommand = await staticModulesOf("src/command/main.ts");
  assert(ofCommand.some((it) => it.startsWith("src/command/")));
  assertEquals(
    modules.filter((it) => /^src\/command\/|^node:|\.json$/.test(it)),
    [],
  );
});

/** The globals of Node.js, which Deno loads when they are first looked at. */
const NODE_GLOBALS = [
  "process",
  "Buffer",
  "global",
  "setImmediate",
  "clearImmediate",
];

/** Prints those of them that a gateway with a directory and hot reload looks at. */
const WATCHER = `
const found = [];
for (const name of ${JSON.stringify(NODE_GLOBALS)}) {
  Object.defineProperty(globalThis, name, { get: () => void found.push(name) });
}
const { createGateway } = await import("${ROOT}main.ts");
await using gateway = await createGateway({ staticDir: "examples/page", hotReload: true });
console.log(JSON.stringify([(await gateway.fetch(new Request("http://localhost/"))).status, found]));
`;

Deno.test("a gateway does not look at the globals of Node.js, which would load the Node layer", async () => {
  const path = await Deno.makeTempFile({ suffix: ".ts" });
  await Deno.writeTextFile(path, WATCHER);
  const args = [
    "run",
    "--quiet",
    "--no-check",
    ...await stdFlags(),
    "--config",
    "deno.json",
    "-A",
    path,
  ];
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args,
    cwd: new URL(ROOT),
  }).output();
  await Deno.remove(path);
  assertEquals(JSON.parse(new TextDecoder().decode(stdout)), [200, []]);
});
