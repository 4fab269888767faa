import { assertEquals } from "@std/assert";
import { dirname, fromFileUrl, relative, toFileUrl } from "@std/path";
import config from "../../deno.json" with { type: "json" };
import { OPTION_NAMES } from "../../src/cli/options/option_table.ts";
import { modulesIn } from "./_modules.ts";

const ROOT = new URL("../../", import.meta.url);

/** Returns the paths of the project's own modules that a module imports. */
async function importsOf(path: string): Promise<string[]> {
  const text = await Deno.readTextFile(new URL(path, ROOT));
  const specifiers = [
    ...text.matchAll(
      /^(?:import|export|\} from)\b[^;]*?"(\.[^"]+)"|import\("(\.[^"]+)"\)/gm,
    ),
  ];
  const base = toFileUrl(fromFileUrl(new URL(path, ROOT)));
  return specifiers.map(([, fixed, dynamic]) =>
    relative(
      fromFileUrl(ROOT),
      fromFileUrl(new URL(fixed ?? dynamic ?? "", base)),
    )
  );
}

/** Returns every module with its imports. */
async function importGraph(folder: string): Promise<Map<string, string[]>> {
  const paths = await modulesIn(folder);
  return new Map(
    await Promise.all(
      paths.map(async (path) => [path, await importsOf(path)] as const),
    ),
  );
}

/** Returns the folder of a module below `src/`; a module directly in `src/` is its own node. */
function nodeOf(path: string): string {
  const folder = dirname(path).split("/")[1];
  return folder ?? path;
}

/** Returns paths from a node back to itself, if there are any. */
function cyclesIn(edges: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const cycles: string[] = [];
  const visited = new Set<string>();
  const visit = (node: string, path: readonly string[]) => {
    if (path.includes(node)) {
      return void cycles.push(
        [...path.slice(path.indexOf(node)), node].join(" -> "),
      );
    }
    if (visited.has(node)) return;
    for (const next of edges.get(node) ?? []) visit(next, [...path, node]);
    visited.add(node);
  };
  for (const node of edges.keys()) visit(node, []);
  return cycles;
}

/** Returns which rooms (folders of `src/`, and modules directly in it) import modules of which others. */
async function roomGraph(): Promise<Map<string, Set<string>>> {
  const edges = new Map<string, Set<string>>();
  for (const [path, imports] of await importGraph("src")) {
    const targets = edges.get(nodeOf(path)) ?? new Set();
    const others = imports.filter((it) => it.startsWith("src/")).map(nodeOf)
      .filter((it) => it !== nodeOf(path));
    edges.set(nodeOf(path), targets.union(new Set(others)));
  }
  return edges;
}

Deno.test("no two folders of src/ import each other, directly or through others", async () => {
  const edges = await roomGraph();
  assertEquals(edges.size > 15, true);
  assertEquals(cyclesIn(edges), []);
});

Deno.test("no two subfolders of src/config/ import each other, directly or through others", async () => {
  const edges = new Map<string, Set<string>>();
  for (const [path, imports] of await importGraph("src/config")) {
    const own: string = dirname(path);
    const folders: string[] = imports.map(dirname);
    const targets = folders.filter((folder) =>
      folder.startsWith("src/config/") && folder !== own
    );
    edges.set(own, new Set(targets).union(edges.get(own) ?? new Set()));
  }
  assertEquals([...edges.keys()].sort(), [
    "src/config",
    "src/config/files",
    "src/config/stored",
    "src/config/variables",
  ]);
  assertEquals(cyclesIn(edges), []);
});

Deno.test("no two modules of src/ import each other, directly or through others", async () => {
  const edges = new Map(
    [...await importGraph("src")].map((
      [path, imports],
    ) => [path, new Set(imports)]),
  );
  assertEquals(cyclesIn(edges), []);
});

Deno.test("no library module imports the command line", async () => {
  const library = [...await importGraph("src")].filter(([path]) =>
    !path.startsWith("src/cli/")
  );
  assertEquals(
    library.filter(([, imports]) =>
      imports.some((it) => it.startsWith("src/cli/"))
    ),
    [],
  );
});

/** A string of TypeScript; what precedes one in a comment is matched with the comment. */
const STRINGS =
  /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|\/\/.*|\/\*[^]*?\*\//g;

/** A flag beside the option of the module that it sets, so that users of either know what is meant. */
const NAMES_BOTH = /\(--[a-z-]+; in the module, [a-zA-Z]+\)/g;

Deno.test("no library module names a flag of the command in a string without the option of the module", async () => {
  const flag = new RegExp(`--(?:${OPTION_NAMES.join("|")})(?![-\\w])`);
  const paths = (await modulesIn("src")).filter((path) =>
    !path.startsWith("src/cli/")
  );
  const found = await Promise.all(paths.map(async (path) => {
    const [...strings] =
      (await Deno.readTextFile(new URL(path, ROOT))).match(STRINGS) ?? [];
    const texts = strings.map((text) => text.replaceAll(NAMES_BOTH, ""));
    return texts.filter((text) => !text.startsWith("/") && flag.test(text))
      .map((text) => `${path}: ${text}`);
  }));
  assertEquals(found.flat(), []);
});

Deno.test("neither src/ nor bench/ nor tools/ imports from tests/", async () => {
  const modules = [
    ...await importGraph("src"),
    ...await importGraph("bench"),
    ...await importGraph("tools"),
  ];
  assertEquals(
    modules.filter(([, imports]) =>
      imports.some((it) => it.startsWith("tests/"))
    ),
    [],
  );
});

Deno.test("deno.json lists npm packages in scopes only: deno task downloads what imports lists before any task", () => {
  const packages: string[] = Object.values(config.imports);
  assertEquals(
    packages.filter((specifier) => specifier.startsWith("npm:")),
    [],
  );
});

Deno.test("no source names an npm package in an import: Deno would download it for every gateway", async () => {
  const paths = await modulesIn("src");
  const texts = await Promise.all(
    paths.map((path) => Deno.readTextFile(new URL(path, ROOT))),
  );
  const imported = /^(?!import type ).*(?:\bfrom|\bimport|\bimport\()\s*"npm:/m; // types are not downloaded
  assertEquals(
    paths.filter((_, index) => imported.test(texts[index] ?? "")),
    [],
  );
});
