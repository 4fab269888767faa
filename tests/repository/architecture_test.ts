import { assertEquals, assertMatch } from "@std/assert";
import { basename, dirname, join } from "@std/path";
import config from "../../deno.json" with { type: "json" };
import { readModules } from "./_sources.ts";

const IMPORT =
  /^(?:import|export|\} from)\b[^;]*?"(\.[^"]+)"|import\(\s*"(\.[^"]+)"/gm;

/** What imports what, by path. */
type Graph = ReadonlyMap<string, ReadonlySet<string>>;

/** Returns every module under a folder, with the project's own modules that it imports. */
async function importGraph(folder: string) {
  const graph = new Map<string, Set<string>>();
  for (const [path, text] of await readModules(folder)) {
    const imports = new Set<string>();
    for (const [, fixed, dynamic] of text.matchAll(IMPORT)) {
      imports.add(join(dirname(path), fixed ?? dynamic ?? ""));
    }
    graph.set(path, imports);
  }
  return graph;
}

/** Joins all modules that have one name, without what they import from each other. */
function grouped(graph: Graph, nameOf: (path: string) => string) {
  const groups = new Map<string, Set<string>>();
  for (const [path, imports] of graph) {
    const name = nameOf(path);
    const others = groups.get(name) ?? new Set();
    for (const target of imports) others.add(nameOf(target));
    others.delete(name);
    groups.set(name, others);
  }
  return groups;
}

/** Returns paths from a node back to itself, if there are any. */
function cyclesIn(graph: Graph): string[] {
  const cycles: string[] = [];
  const visited = new Set<string>();
  function visit(node: string, path: readonly string[]) {
    if (path.includes(node)) {
      const cycle = [...path.slice(path.indexOf(node)), node];
      cycles.push(cycle.join(" -> "));
      return;
    }
    if (visited.has(node)) return;
    for (const next of graph.get(node) ?? []) visit(next, [...path, node]);
    visited.add(node);
  }
  for (const node of graph.keys()) visit(node, []);
  return cycles;
}

/** Returns the modules that import one whose path begins so. */
function importersOf(prefix: string, graph: Graph): string[] {
  const importers: string[] = [];
  for (const [path, imports] of graph) {
    const isImporter = [...imports].some((it) => it.startsWith(prefix));
    if (isImporter) importers.push(path);
  }
  return importers;
}

/** Returns the paths of the modules of `src/` whose text matches. */
async function modulesWith(pattern: RegExp): Promise<string[]> {
  const modules = [...await readModules("src")];
  const found = modules.filter(([, text]) => pattern.test(text));
  return found.map(([path]) => path);
}

const SOURCES = await importGraph("src");

Deno.test("no two modules of src/ import each other, directly or through others", () => {
  assertEquals(importersOf("src/core/values/", SOURCES).length > 10, true);
  assertEquals(cyclesIn(SOURCES), []);
});

/**
 * The folders and modules directly in src/, each of which may import those below it only. Modules directly in src/ and
 * src/core/, and the folders of src/core/, count as folders of their own for cycles.
 */
const LAYERS = [
  "src/command/",
  "src/server/",
  "src/vite/",
  "src/sources.ts",
  "src/gateway.ts",
  "src/options.ts",
  "src/gateway_interface.ts",
  "src/addons/",
  "src/content/",
  "src/adapters/",
  "src/engines/",
  "src/client/",
  "src/stored/",
  "src/files/",
  "src/version.ts",
  "src/core/",
];

function layerOf(path: string): string {
  return LAYERS.find((layer) => path.startsWith(layer)) ?? path;
}

function folderOf(path: string): string {
  const depth = path.startsWith("src/core/") ? 3 : 2;
  return path.split("/").slice(0, depth).join("/");
}

Deno.test("src/core/ is the gateway of the specification alone: it imports nothing from outside itself, not even lazily", async () => {
  const core = await importGraph("src/core");
  assertEquals(core.size > 50, true);
  const outside = [...core].flatMap(([path, imports]) =>
    [...imports].filter((it) => !it.startsWith("src/core/"))
      .map((it) => `${path} -> ${it}`)
  );
  assertEquals(outside, []);
});

Deno.test("createCore() needs every module of src/core/: who reads the core alone reads nothing else", async () => {
  const core = await importGraph("src/core");
  const reached = new Set(["src/core/core.ts"]);
  for (const path of reached) { // grows while it is iterated
    for (const it of core.get(path) ?? []) reached.add(it);
  }
  const others = [...core.keys()].filter((path) => !reached.has(path));
  assertEquals([reached.size > 50, others], [true, []]);
});

/** An import of a package, unless it imports types only. */
const PACKAGE = /^(?!import type ).*(?:from|import\()\s*"([^."][^"]*)"/gm;

Deno.test("src/core/ imports no packages but those of @std and Node's own modules", async () => {
  const packages: string[] = [];
  for (const [, text] of await readModules("src/core")) {
    for (const [, name = ""] of text.matchAll(PACKAGE)) packages.push(name);
  }
  const others = packages.filter((name) => !/^(?:@std\/|node:)/.test(name));
  assertEquals([packages.length > 5, others], [true, []]);
});

Deno.test("every module of src/ imports only its own layer and those below it", () => {
  const layers = new Set([...SOURCES.keys()].map(layerOf));
  assertEquals([...layers].sort(), [...LAYERS].sort());
  const upward = [...SOURCES].flatMap(([path, imports]) => {
    const rank = LAYERS.indexOf(layerOf(path));
    return [...imports].filter((it) => LAYERS.indexOf(layerOf(it)) < rank)
      .map((it) => `${path} -> ${it}`);
  });
  // The plugin reads the settings of a manifest as the command does.
  assertEquals(upward, [
    "src/vite/project_files.ts -> src/command/options/manifest_settings.ts",
  ]);
});

Deno.test("no two folders of src/ or of src/core/ import each other, directly or through others", () => {
  const folders = grouped(SOURCES, folderOf);
  assertEquals(folders.has("src/core/changes"), true);
  assertEquals(cyclesIn(folders), []);
});

Deno.test("no two subfolders of src/core/config/ import each other, directly or through others", () => {
  const folders = grouped(SOURCES, configFolderOf);
  assertEquals(folders.has("src/core/config/variables"), true);
  assertEquals(cyclesIn(folders), []);
});

function configFolderOf(path: string) {
  return path.startsWith("src/core/config/") ? dirname(path) : path;
}

Deno.test("neither src/ nor bench/ nor tools/ imports from tests/", async () => {
  for (const folder of ["src", "bench", "tools"]) {
    assertEquals(importersOf("tests/", await importGraph(folder)), []);
  }
});

Deno.test("deno.json lists npm packages in scopes only: deno task downloads what imports lists before any task", () => {
  const packages: string[] = Object.values(config.imports);
  assertEquals(packages.filter((it) => it.startsWith("npm:")), []);
});

Deno.test("no source names an npm package in an import: Deno would download it for every gateway", async () => {
  const imported = /^(?!import type ).*(?:\bfrom|\bimport|\bimport\()\s*"npm:/m; // types are not downloaded
  assertEquals(await modulesWith(imported), []);
});

Deno.test("nothing in src/ starts a process", async () => {
  const starts = /Deno\.Command|child_process|Deno\.run\b/;
  assertEquals(await modulesWith(starts), []);
});

Deno.test("no test changes the directory or the environment of the process, which all test files share", async () => {
  const changes =
    /\bDeno\.(?:chdir|env\.set|env\.delete)\(|\bprocess\.env\["\w+"\] = /;
  const tests = [...await readModules("tests")];
  const found = tests.filter(([, text]) => changes.test(text));
  // Deno itself reads the token of its KV service.
  assertEquals(found.map(([path]) => path), ["tests/engines/open_test.ts"]);
});

/** Returns the paths of the files in the diagram of a section, without those of its lines that match. */
async function filesInDiagram(section: string, except?: RegExp) {
  const text = await Deno.readTextFile("docs/development/architecture.md");
  const [, after = ""] = text.split(`## ${section}\n`);
  const [diagram = ""] = after.trimStart().split(/\n(?! {4})/);
  const paths = new Set<string>();
  for (const line of diagram.split("\n")) {
    if (except?.test(line)) continue;
    let folder = "src";
    for (const [name] of line.matchAll(/[\w/]+\.ts\b/g)) {
      if (name.includes("/")) folder = join("src", dirname(name));
      paths.add(join(folder, basename(name)));
    }
  }
  return paths;
}

Deno.test("architecture.md says how many files a change and a warm page pass through, and all of them exist", async () => {
  const change = await filesInDiagram("The way of a change");
  const page = await filesInDiagram("The way of a page");
  for (const path of [...change, ...page]) await Deno.stat(path);
  const warm = await filesInDiagram("The way of a page", /cold:|compression:/);
  const text = await Deno.readTextFile("docs/development/architecture.md");
  assertMatch(text, new RegExp(`These are ${change.size} files`));
  // The last one is entered with hot reload only.
  assertMatch(text, new RegExp(`the ${warm.size - 1} files that are not cold`));
});
