import { assertEquals } from "@std/assert";
import { startProgram } from "./_command.ts";

const README = await Deno.readTextFile("README.md");

Deno.test("README.md links only to files that exist", async () => {
  const paths = [...README.matchAll(/\]\(((?!https?:)[^)]+)\)/g)].map(([, path]) => String(path));
  for (const path of paths) await Deno.stat(path);
  assertEquals(paths.length > 2, true);
});

Deno.test("the module example in README.md is a server that delivers its configuration", async () => {
  const [, example = ""] = /```ts ignore\n([^]*?)```/.exec(README) ?? [];
  await using server = await startProgram(example.replace("jsr:@rep/gateway", "@rep/gateway"));
  const html = await (await fetch(server.url)).text();
  const payload = JSON.parse(/<script id="__rep__"[^>]*>([^<]*)</.exec(html)?.[1] ?? "null");
  assertEquals([payload.public, typeof payload.sensitive], [{ THEME: "dark" }, "string"]);
  const { status, variables } = await (await fetch(`${server.url}/rep/health`)).json();
  assertEquals([status, variables], ["healthy", { public: 1, sensitive: 1, server: 0 }]);
});

Deno.test("docs/architecture.md names only files and folders that exist", async () => {
  const text = await Deno.readTextFile("docs/architecture.md");
  const paths = [...text.matchAll(/`((?:src|tests|bench|tools|docs|examples)\/[\w./]*)`/g)].map(([, path]) =>
    String(path)
  );
  for (const path of paths) await Deno.stat(path);
  assertEquals(paths.length > 20, true);
});
